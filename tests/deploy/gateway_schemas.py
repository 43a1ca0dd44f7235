"""The fields that deploy/kubernetes/gateway/ uses, as JSON Schema: what else is written there is a mistake.

Written after the Gateway API (v1) and Envoy Gateway 1.7 (v1alpha1), whose own schemas are in no package.
"""

from typing import Any

_NAME = {"type": "string", "minLength": 1}
_PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
_COUNT = {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}
_DURATION = {"type": "string", "pattern": r"^([0-9]{1,5}(h|m|s|ms)){1,4}$"}


def _fields(required: str = "", **properties: Any) -> dict[str, Any]:
    """An object of these fields and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of, "minItems": 1, "maxItems": 16}


def _kind(group: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    labels = {"type": "object", "additionalProperties": _NAME}
    metadata = _fields("name", name=_NAME, namespace=_NAME, labels=labels)
    return _fields(
        "apiVersion kind metadata spec", apiVersion={"const": group}, kind={"const": kind}, metadata=metadata, spec=spec
    )


_TARGETS = _list(
    _fields("group kind name", group={"const": "gateway.networking.k8s.io"}, kind={"const": "HTTPRoute"}, name=_NAME)
)
_API, _ENVOY = "gateway.networking.k8s.io/v1", "gateway.envoyproxy.io/v1alpha1"
SCHEMAS = {
    "Gateway": _kind(
        _API,
        "Gateway",
        _fields(
            "gatewayClassName listeners",
            gatewayClassName=_NAME,
            listeners=_list(
                _fields(
                    "name protocol port",
                    name=_NAME,
                    protocol={"enum": ["HTTP", "HTTPS", "TLS", "TCP", "UDP"]},
                    port=_PORT,
                )
            ),
        ),
    ),
    "HTTPRoute": _kind(
        _API,
        "HTTPRoute",
        _fields(
            "parentRefs rules",
            parentRefs=_list(_fields("name", name=_NAME)),
            rules=_list(
                _fields(
                    "backendRefs",
                    backendRefs=_list(_fields("name port", name=_NAME, port=_PORT)),
                    timeouts=_fields(request=_DURATION, backendRequest=_DURATION),
                )
            ),
        ),
    ),
    "EnvoyExtensionPolicy": _kind(
        _ENVOY,
        "EnvoyExtensionPolicy",
        _fields(
            "targetRefs", targetRefs=_TARGETS, lua=_list(_fields("type inline", type={"const": "Inline"}, inline=_NAME))
        ),
    ),
    "BackendTrafficPolicy": _kind(
        _ENVOY,
        "BackendTrafficPolicy",
        _fields(
            "targetRefs",
            targetRefs=_TARGETS,
            loadBalancer=_fields(
                "type",
                type={"const": "ConsistentHash"},
                consistentHash=_fields("type header", type={"const": "Header"}, header=_fields("name", name=_NAME)),
            ),
            healthCheck=_fields(
                panicThreshold={"type": "integer", "minimum": 0, "maximum": 100},
                active=_fields(
                    "type http",
                    type={"const": "HTTP"},
                    timeout=_DURATION,
                    interval=_DURATION,
                    unhealthyThreshold={"type": "integer", "minimum": 1},
                    healthyThreshold={"type": "integer", "minimum": 1},
                    http=_fields(
                        "path",
                        path=_NAME,
                        hostname=_NAME,
                        expectedStatuses=_list({"type": "integer", "minimum": 100, "maximum": 599}),
                    ),
                ),
            ),
            retry=_fields(
                numRetries=_COUNT,
                retryOn=_fields(triggers=_list({"enum": ["connect-failure", "refused-stream"]})),
            ),
            timeout=_fields(
                tcp=_fields(connectTimeout=_DURATION),
                http=_fields(connectionIdleTimeout=_DURATION, requestTimeout=_DURATION, maxStreamDuration=_DURATION),
            ),
            circuitBreaker=_fields(maxConnections=_COUNT, maxPendingRequests=_COUNT, maxParallelRequests=_COUNT),
        ),
    ),
}
