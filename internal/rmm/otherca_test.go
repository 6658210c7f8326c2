package rmm

import (
	"io"
	"log"
)

// discardLog takes what test servers say about broken handshakes.
var discardLog = log.New(io.Discard, "", 0)

// otherCA is a private authority that has signed nothing.
const otherCA = `-----BEGIN CERTIFICATE-----
MIIBizCCATGgAwIBAgIUbzKZIh+20H5mj9OPKtZzXc99dIcwCgYIKoZIzj0EAwIw
GjEYMBYGA1UECgwPT3RoZXIgQXV0aG9yaXR5MCAXDTI2MTEyOTIyMjU1NVoYDzIx
MjYxMTA1MjIyNTU1WjAaMRgwFgYDVQQKDA9PdGhlciBBdXRob3JpdHkwWTATBgcq
hkjOPQIBBggqhkjOPQMBBwNCAASV4sw3NiswFhVqij6FXp7GGRZ4THg2THPnr7GD
3SZ8YiYfpHm33Fo2NG8Lf+F7WCpj5prqyjSH7Wk8m2E9j3r0o1MwUTAdBgNVHQ4E
FgQU55Sd3GVK87G/0MUOc9Eo2uMlJD4wHwYDVR0jBBgwFoAU55Sd3GVK87G/0MUO
c9Eo2uMlJD4wDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiEA/Uks
z+2F/GEU5vnl0LLEiR1VAaAodQgvRB38xxwMl/ACIE8zOziSzhI8RNOkmiNQQtuv
1YLD8cKG9Xo3Ln4PrvsY
-----END CERTIFICATE-----
`
