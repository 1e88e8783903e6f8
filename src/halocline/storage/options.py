"""The options of stores: every name that a service or a connection knows, and no other.

Names are told apart without regard to case. A configuration is often shared by tables in several places, so a store
takes the options of all services, and uses its own. A name that none of them knows is refused with the nearest one:
passed on, a slip in the name of some other option would do nothing without a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from halocline.errors import InputError

CONNECTION: Final = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "default_headers",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "timeout",
        "user_agent",
    }
)
"""Options of the connection to any service."""

RETRY: Final = frozenset({"max_retries", "retry_timeout"})
"""Options for requests that fail for the moment."""


def _spelt(prefix: str, names: str) -> frozenset[str]:
    """Names that are known with a prefix and without."""
    return frozenset(spelling for name in names.split() for spelling in (name, prefix + name))


SERVICES: Final[Mapping[str, frozenset[str]]] = {
    "s3": _spelt(
        "aws_",
        "access_key_id bucket bucket_name checksum_algorithm conditional_put container_authorization_token_file "
        "container_credentials_full_uri container_credentials_relative_uri copy_if_not_exists default_region "
        "disable_bulk_delete "
        "disable_tagging endpoint endpoint_url endpoint_url_sts imdsv1_fallback metadata_endpoint region request_payer "
        "role_arn role_session_name s3_express secret_access_key server_side_encryption session_token skip_signature "
        "sse_bucket_key_enabled sse_customer_key_base64 sse_kms_key_id token unsigned_payload "
        "virtual_hosted_style_request web_identity_token_file",
    ),
    "gs": _spelt(
        "google_",
        "application_credentials base_url bucket bucket_name service_account service_account_key service_account_path "
        "skip_signature",
    ),
    "az": _spelt(
        "azure_",
        "authority_host authority_id client_id client_secret container_name credential_type disable_tagging endpoint "
        "fabric_cluster_identifier fabric_session_token fabric_token_service_url fabric_workload_host "
        "federated_token_file identity_endpoint msi_endpoint msi_resource_id object_id skip_signature tenant_id "
        "use_azure_cli use_fabric_endpoint",
    )
    | frozenset(
        f"azure_storage_{name}"
        for name in ("account_name", "authority_host", "authority_id", "client_id", "client_secret", "endpoint")
    )
    | frozenset(f"azure_storage_{name}" for name in ("sas_key", "sas_token", "tenant_id", "token", "use_emulator"))
    | frozenset(f"azure_storage_{name}" for name in ("access_key", "account_key", "master_key"))
    | {"access_key", "account_key", "account_name", "bearer_token", "master_key", "sas_key", "sas_token", "token"}
    | {"azure_storage_encryption_key", "encryption_key", "use_emulator"},
}
"""Options of each service, by the names of the client library."""

KNOWN: Final = CONNECTION.union(RETRY, *SERVICES.values())
"""Every option of a store."""


def checked(options: Mapping[str, str] | None, others: Iterable[str] = ()) -> dict[str, str]:
    """Options by their names in lower case, if all are options of a store."""
    given = {key.lower(): value for key, value in (options or {}).items()}
    for key, name in zip(given, options or {}, strict=True):
        if key not in KNOWN:
            raise unknown(name, [*KNOWN, *others])
    return given


def unknown(name: str, known: Iterable[str]) -> InputError:
    """The error for an option that does not exist."""
    asked = name.lower().removeprefix("spark.")
    return InputError.unknown(f"there is no option {name}", asked, sorted(known), next_step="Leave it out.")
