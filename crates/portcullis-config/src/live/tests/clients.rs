//! The clients among which a layer that sheds load shares its places.

use portcullis_tower::{ClientIp, Identity, KeyExtractor as _};

use super::*;

fn identity(clients: &RulesClients) -> Identity {
    let (parts, _) = request("/").into_parts();
    clients.extract(&parts, &mut Secret::published().hasher().writer()).unwrap()
}

#[test]
fn places_are_shared_where_client_ip_is_set() {
    let with = |table: &str| format!("{table}\n{}", window("p", "1/day", ""));
    let live = live(&with(""));
    let clients = live.clients();
    assert_eq!(identity(&clients), Identity::Exempt);
    for (table, expected) in [
        ("[client_ip]", Identity::Found),
        ("[client_ip]\nshare_places = true", Identity::Found),
        ("[client_ip]\nshare_places = false", Identity::Exempt),
        ("", Identity::Exempt),
    ] {
        live.swap(rules(&with(table))).unwrap();
        assert_eq!(identity(&clients), expected, "{table}");
    }
    let loader = Loader::text("limits.toml", Format::Toml, with("")).client_ip(ClientIp::peer());
    live.swap(Rules::load(&loader).unwrap()).unwrap();
    assert_eq!(identity(&clients), Identity::Found);
}
