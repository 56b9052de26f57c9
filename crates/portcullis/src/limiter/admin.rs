//! The admin API of the limiter.

use std::sync::Arc;

use http::request::Parts;

use super::Limiter;
use crate::admin::{Actor, Admin, Refused};

impl Limiter {
    /// Starts the admin API of this limiter, whose [router](Admin::into_router) is mounted where you like: policies and their counters,
    /// budgets, top callers, recent rejections; blocks, grants, resets and modes.
    ///
    /// `authorize` is called for each request before anything else, and returns who makes it: the actor, who stands in an audit event for every
    /// change. The [Admin API] has the routes and what they guard against. Call it once per limiter, after the limiter has got
    /// its rules: it adds an observer.
    ///
    #[doc = book!("Admin API", "reference/admin")]
    ///
    /// ```
    /// use axum::Router;
    /// use axum::http::request::Parts;
    /// use portcullis::Limiter;
    /// use portcullis::admin::{Actor, Refused, has_bearer_token};
    ///
    /// let limiter = Limiter::memory();
    /// let admin = limiter.admin(|parts: &Parts| {
    ///     if has_bearer_token(parts, "a long random token") { Ok(Actor::new("operator")) } else { Err(Refused::Unauthenticated) }
    /// });
    /// let app: Router = Router::new().nest("/limits", admin.into_router());
    /// # let _ = app;
    /// ```
    pub fn admin<F>(&self, authorize: F) -> Admin
    where
        F: Fn(&Parts) -> Result<Actor, Refused> + Send + Sync + 'static,
    {
        self.described(Admin::new(Arc::clone(&self.registry), authorize))
    }

    /// Like [`admin`](Self::admin), with a function that waits for something, such as a look-up of a session.
    pub fn admin_async<F, R>(&self, authorize: F) -> Admin
    where
        F: Fn(Parts) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Actor, Refused>> + Send + 'static,
    {
        self.described(Admin::new_async(Arc::clone(&self.registry), authorize))
    }

    fn described(&self, admin: Admin) -> Admin {
        #[cfg(feature = "rules")]
        let admin = match self.rules.clone() {
            Some(rules) => admin.generation(move || Some(rules.generation())),
            None => admin,
        };
        let mut kind = "custom";
        self.store().figures(&mut |figure| match figure.name {
            "connections" => kind = "redis",
            "entries" => kind = "memory",
            _ => {}
        });
        admin.store_kind(kind)
    }
}
