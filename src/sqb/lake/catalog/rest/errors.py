"""What goes wrong between sqb and a REST catalog, as errors that name the setting to correct."""

from __future__ import annotations

from sqb.errors.connections import CatalogDenied, CatalogFailed
from sqb.errors.lake import CatalogUnreachable, LakeError
from sqb.lake.catalog.rest.client import RequestRefused
from sqb.lake.catalog.rest.http import NoAnswer
from sqb.project.config.connections.lake_location import LakeLocation

# Of pyiceberg and of the library beneath it, by name: neither is loaded just to be compared with.
_NO_ANSWER = {"ConnectionError", "ConnectTimeout", "ReadTimeout", "Timeout", "SSLError", "ChunkedEncodingError"}
_STATUS = {
    "BadRequestError": 400,
    "UnauthorizedError": 401,
    "AuthorizationExpiredError": 401,
    "OAuthError": 401,
    "ForbiddenError": 403,
    "TooManyRequestsError": 429,
    "ServerError": 500,
    "ServiceUnavailableError": 503,
    "RESTError": 500,
}


def explain(error: BaseException, place: LakeLocation) -> LakeError | None:
    """What a failure means; None where it is not one of the catalog."""
    match error:
        case NoAnswer():
            return _build_unreachable_error(place, place.hide(str(error)))
        case RequestRefused(status=status):
            return _build_refused_error(place, status, str(error))
    kind, module = type(error).__name__, type(error).__module__.partition(".")[0]
    if module == "requests" and kind in _NO_ANSWER:
        return _build_unreachable_error(place, f"{place.hide(place.uri)}: no answer")
    if module == "pyiceberg" and kind in _STATUS:
        return _build_refused_error(place, _STATUS[kind], str(error))
    return None


def _build_unreachable_error(place: LakeLocation, why: str) -> CatalogUnreachable:
    return CatalogUnreachable(
        f"the catalog of the connection {place.connection} does not answer: {why}",
        hint="check `uri` of the connection, the network, and whether the server runs; nothing is lost, the next"
        " build goes on from what is there",
    )


def _build_refused_error(place: LakeLocation, status: int, message: str) -> LakeError:
    whose = f"the catalog of the connection {place.connection}"
    text = place.hide(message.partition("\n")[0])
    if status == 401:
        return CatalogDenied(f"{whose} does not know who is asking: {text}", hint=_build_login_hint(place))
    if status == 403:
        return CatalogDenied(
            f"{whose} does not allow this: {text}", hint="give the connection's user the right to do it in the catalog"
        )
    if status == 404:
        return CatalogFailed(
            f"{whose} does not have what it was asked for: {text}",
            hint="check `uri`, and `warehouse`: the name that this server has for the catalog",
        )
    if status < 500:
        return CatalogFailed(
            f"{whose} refuses: {text} (HTTP {status})",
            hint="check `uri` and `warehouse` of the connection; the log of the catalog's server may say more",
        )
    return CatalogFailed(
        f"{whose} failed: {text} (HTTP {status})",
        hint="look into the log of the catalog's server; nothing is lost, the next build goes on from what is there",
    )


def _build_login_hint(place: LakeLocation) -> str:
    configured = [key for key in ("token", "credential") if key in place.options]
    if not configured:
        return "set `token`, or `credential`, in the options of the connection's catalog"
    return f"check `{configured[0]}` in the options of the connection's catalog: it may be wrong, or have expired"
