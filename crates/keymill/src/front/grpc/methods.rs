//! The methods that are answered, and what each needs: which right, and where.
//!
//! `admission` decides by this before a message is read. A test has a row for every method of the contract.

use crate::access::rights::Right;
use crate::metrics::Route;

/// A method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Take,
    TakeStream,
    Digest,
    AddAlias,
    RemoveAlias,
    GetAlias,
    ListAliases,
    Explain,
    Retire,
    EnsureSpace,
    GetSpace,
    ListSpaces,
    HealthCheck,
    HealthWatch,
    Reflection,
    ReflectionAlpha,
}

/// What a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing: health checks come by address and have no token.
    Nothing,
    /// No token, but a name of the server: the contract holds nothing secret.
    Page,
    /// A token, whatever it allows: there is no such method.
    Token,
    /// A right in the keyspace that the message names, or in all of them if it names none.
    Right(Right),
}

impl Method {
    /// The method of a path.
    pub(super) fn of(path: &str) -> Option<Method> {
        let Some(name) = path.strip_prefix("/keymill.v1.Keymill/") else {
            return Method::other(path);
        };
        Some(match name {
            "Take" => Method::Take,
            "TakeStream" => Method::TakeStream,
            "Digest" => Method::Digest,
            "AddAlias" => Method::AddAlias,
            "RemoveAlias" => Method::RemoveAlias,
            "GetAlias" => Method::GetAlias,
            "ListAliases" => Method::ListAliases,
            "Explain" => Method::Explain,
            "Retire" => Method::Retire,
            "EnsureSpace" => Method::EnsureSpace,
            "GetSpace" => Method::GetSpace,
            "ListSpaces" => Method::ListSpaces,
            _ => return None,
        })
    }

    fn other(path: &str) -> Option<Method> {
        Some(match path {
            "/grpc.health.v1.Health/Check" => Method::HealthCheck,
            "/grpc.health.v1.Health/Watch" => Method::HealthWatch,
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo" => Method::Reflection,
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => {
                Method::ReflectionAlpha
            }
            _ => return None,
        })
    }

    /// What it needs.
    pub(super) fn need(self) -> Need {
        match self {
            Method::Take | Method::TakeStream => Need::Right(Right::Take),
            Method::Digest | Method::AddAlias | Method::RemoveAlias | Method::Retire => {
                Need::Right(Right::Name)
            }
            Method::GetAlias
            | Method::ListAliases
            | Method::Explain
            | Method::GetSpace
            | Method::ListSpaces => Need::Right(Right::Read),
            Method::EnsureSpace => Need::Right(Right::Admin),
            Method::HealthCheck | Method::HealthWatch => Need::Nothing,
            Method::Reflection | Method::ReflectionAlpha => Need::Page,
        }
    }

    /// What it is counted as.
    pub(super) fn route(self) -> Route {
        match self {
            Method::Take | Method::TakeStream => Route::Take,
            Method::Digest => Route::Digest,
            Method::AddAlias | Method::RemoveAlias | Method::GetAlias | Method::ListAliases => {
                Route::Alias
            }
            Method::Explain | Method::Retire => Route::Key,
            Method::HealthCheck | Method::HealthWatch => Route::Watch,
            Method::EnsureSpace
            | Method::GetSpace
            | Method::ListSpaces
            | Method::Reflection
            | Method::ReflectionAlpha => Route::Other,
        }
    }

    /// Whether it is answered only on the admin listener, where there is one: as over HTTP, what needs the right
    /// `admin`, and what describes the server.
    pub(super) fn is_admin_only(self) -> bool {
        matches!(self.need(), Need::Page | Need::Right(Right::Admin))
    }
}
