//! The script: a clock and the driver, with the algorithms in its loop.

use super::override_record;
use super::script::Script;
use super::wire::wrote;

/// The script that decides, on the clock of a scenario or of the server.
pub(crate) fn of_decisions(is_scenario: bool) -> Script {
    Script::new(&source(clock(is_scenario))).with_write_check(wrote)
}

/// The script that reads and replaces the record of an override, on the clock of a scenario or of the server.
pub(crate) fn of_overrides(is_scenario: bool) -> Script {
    let source = [clock(is_scenario), include_str!("../../lua/override_record.lua")].concat();
    Script::new(&source).with_write_check(override_record::replaced)
}

/// The script that replaces a document which is still the expected one.
pub(crate) fn of_documents() -> Script {
    Script::new(include_str!("../../lua/document.lua"))
        .with_write_check(|reply| reply.as_integer() == Some(1))
}

fn clock(is_scenario: bool) -> &'static str {
    if is_scenario {
        include_str!("../../lua/scenario_clock.lua")
    } else {
        include_str!("../../lua/server_clock.lua")
    }
}

/// One script for all algorithms: an algorithm that a call does not use costs a comparison.
fn source(clock: &str) -> String {
    let driver = include_str!("../../lua/driver.lua");
    let driver = driver.replace(PLACE_OF_SINGLE_METER, SINGLE_METER);
    let driver = driver.replace(PLACE_OF_ALGORITHMS, &ALGORITHMS.concat());
    [clock, &driver].concat()
}

/// The line of the driver that the decision of most calls replaces.
const PLACE_OF_SINGLE_METER: &str = "-- SINGLE METER\n";
const SINGLE_METER: &str = include_str!("../../lua/single_meter.lua");
/// The line of the driver that the algorithms replace.
const PLACE_OF_ALGORITHMS: &str = "  -- ALGORITHMS\n";
const ALGORITHMS: [&str; 6] = [
    include_str!("../../lua/meter.lua"),
    include_str!("../../lua/window.lua"),
    include_str!("../../lua/sliding_window.lua"),
    include_str!("../../lua/sliding_log.lua"),
    include_str!("../../lua/in_flight.lua"),
    include_str!("../../lua/override.lua"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_in_the_script_once() {
        let source = source("");
        assert!(!source.contains(PLACE_OF_ALGORITHMS) && !source.contains(PLACE_OF_SINGLE_METER));
        for algorithm in ALGORITHMS.iter().copied().chain([SINGLE_METER]) {
            assert_eq!(source.matches(algorithm).count(), 1);
        }
    }
}
