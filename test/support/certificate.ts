import { sign, X509Certificate } from 'node:crypto'

/** A self-signed certificate for 127.0.0.1, made for the tests; its key guards nothing. */
export const certificate = `-----BEGIN CERTIFICATE-----
MIIBjzCCATagAwIBAgIUP9piwmLtAlC808ZhXx5DWYAc6XYwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJMTI3LjAuMC4xMCAXDTI2MTEyMTAzMDIzOFoYDzIxMjYxMDI4
MDMwMjM4WjAUMRIwEAYDVQQDDAkxMjcuMC4wLjEwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAATTHCDOkYKP5UrxYzgmmNXXGslv6+mUAK1xG+sZ3ooUiFY/zB7JFb/+
dHrsOTARnONlPIHioLq6e8o8a6rgT3m7o2QwYjAdBgNVHQ4EFgQUREVF3KRGM1CY
iNRlUh7vFN0LPbkwHwYDVR0jBBgwFoAUREVF3KRGM1CYiNRlUh7vFN0LPbkwDwYD
VR0TAQH/BAUwAwEB/zAPBgNVHREECDAGhwR/AAABMAoGCCqGSM49BAMCA0cAMEQC
IBitTiWLb+ifm2Eft45u3rJUox+XSl659Lxs9BeIsXtUAiA9eSS0U1qfaLXuny3A
OGWnhXFQqcneYynXn2MD2ZPSgw==
-----END CERTIFICATE-----`

/** Key of `certificate`. */
export const certificateKey = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgq9xKLhMsSTlHd8Dq
07mZrVw5oG7Ibd8Dlza+fTrbCemhRANCAATTHCDOkYKP5UrxYzgmmNXXGslv6+mU
AK1xG+sZ3ooUiFY/zB7JFb/+dHrsOTARnONlPIHioLq6e8o8a6rgT3m7
-----END PRIVATE KEY-----`

/** Another certificate, for ::1 and localhost too, to renew the first. */
export const renewedCertificate = `-----BEGIN CERTIFICATE-----
MIIBujCCAWCgAwIBAgIUIC1UrIdN2/3w+KO4AxzVNe5avOMwCgYIKoZIzj0EAwIw
GjEYMBYGA1UEAwwPcmVuZXdlZC5leGFtcGxlMCAXDTI2MTEyMjAzNDcyNFoYDzIx
MjYxMDI5MDM0NzI0WjAaMRgwFgYDVQQDDA9yZW5ld2VkLmV4YW1wbGUwWTATBgcq
hkjOPQIBBggqhkjOPQMBBwNCAARzWIdLiKd5zs2dUJICmY/C5SXf/Dz/bxZQ9+VC
qG6QPRWEjoDLA0GR7JEsYDkVAo0YDhONqtEpcUdemZWVyn08o4GBMH8wHQYDVR0O
BBYEFCLsjERq2SA+pRRiMmW8CXxagVisMB8GA1UdIwQYMBaAFCLsjERq2SA+pRRi
MmW8CXxagVisMA8GA1UdEwEB/wQFMAMBAf8wLAYDVR0RBCUwI4cEfwAAAYcQAAAA
AAAAAAAAAAAAAAAAAYIJbG9jYWxob3N0MAoGCCqGSM49BAMCA0gAMEUCIQClKwAw
aNUl4hOvy480fe4t8f8rRL50Cnm3mhc7+P2GEQIgdJyqvGXt02f8XCCuVHu2sLNI
746tMKIU8YeiPw4nj8g=
-----END CERTIFICATE-----`

/** Key of `renewedCertificate`. */
export const renewedKey = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgXh+91jvpQnxDujeO
ujhR4p9oybCTe+0iYfDPOHf0qSyhRANCAARzWIdLiKd5zs2dUJICmY/C5SXf/Dz/
bxZQ9+VCqG6QPRWEjoDLA0GR7JEsYDkVAo0YDhONqtEpcUdemZWVyn08
-----END PRIVATE KEY-----`

/** The same key, encrypted with a passphrase. */
export const encryptedKey = `-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAhwhJNY/p52hQICA+gw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEDw7CpXJFZW0ez9LtMBxR3QEgZAM
EjXDjY4d2uxAZ0pM2AZPjOXH6JhN8l9J6V4LVUnpGppcPJk/vT15nmXBFIDB2gBu
x+4iiDL71y6qw5rSkp/dlj/cFRBMSU0FyrlzLA6OFhDxGUDCJFIpCtnIrpCG9PhS
f6ze84jqlPjKw0vYOMKzh483Z8eEowemMvToMkS+dYxAdt0kIi59KR0Dt61qbCg=
-----END ENCRYPTED PRIVATE KEY-----`

/** A self-signed certificate with an RSA key, for cipher suites without ECDSA. */
export const rsaCertificate = `-----BEGIN CERTIFICATE-----
MIIDHDCCAgSgAwIBAgIUKxNry22eA18RyEERjL/4ABYznhswDQYJKoZIhvcNAQEL
BQAwFDESMBAGA1UEAwwJMTI3LjAuMC4xMCAXDTI2MTEyMzA2MTM0NVoYDzIxMjYx
MDMwMDYxMzQ1WjAUMRIwEAYDVQQDDAkxMjcuMC4wLjEwggEiMA0GCSqGSIb3DQEB
AQUAA4IBDwAwggEKAoIBAQC3hGT5MvXpy9OloxGdsaBawCuJekbZW+qCKSoi+TWe
w9LLWsMveVNJyJJsn0F/pcb0yv7UUrlhPaZbmTCbqHr7Q7IevZSfMR5FqDos2pbY
6WUF39ie03vQSfOMqZj6DdJTkVNCQgD2z31DrrLmRf0dekzmdP7KtccHHrjjJN9n
VBvAhh9ydcUp8PLy0Vn47q+iTMdOnUS256qAtc8As9QXLo45ciFJJSexqy0XZh07
8QRUu9cTWpPKyzFR+66PJRJ20Vr4JDeGbBXH2q75EvP/fWd2Fj0ZBiwkUW56I/6E
haMwp/uR1Wtb74ZNcs+ULIZM0Fhgji84+bArGxSuSj37AgMBAAGjZDBiMB0GA1Ud
DgQWBBSOOXLRUC4fpxpcrijg0WtaSwNqRDAfBgNVHSMEGDAWgBSOOXLRUC4fpxpc
rijg0WtaSwNqRDAPBgNVHRMBAf8EBTADAQH/MA8GA1UdEQQIMAaHBH8AAAEwDQYJ
KoZIhvcNAQELBQADggEBACvpMoPERbhwyBD7b+82OgTWPYb3o1nRNW6s7IzHiKmg
C+ifIROQr5n4nMgumO6yemOS3vhJ2IBHQxCAr3Xug5agEvyhbLr4R5jwysKOJDHe
UCLY6njcXtYYRswRJhbGqFs9r8lxRj2n8oWmqAl0Gma8tsWhtuwVlaLhrTLbpTW+
7Myqwn9dj4NyVbSXw0DH7N7L+U6IwpDP5pNUYeBnaSygNafhIfYs2Y3omIN/0pAm
xzloEDD/xTkitbezJmKf2qLnLfk/IBz1cWKyThyN7tMKyjCgDlV1Q+nhrdtVKwT/
XAZ/5qbG/F3a2FMjkrwjAP3+HlNqMemQ9j/QYvT7t8k=
-----END CERTIFICATE-----`

/** Key of `rsaCertificate`. */
export const rsaKey = `-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC3hGT5MvXpy9Ol
oxGdsaBawCuJekbZW+qCKSoi+TWew9LLWsMveVNJyJJsn0F/pcb0yv7UUrlhPaZb
mTCbqHr7Q7IevZSfMR5FqDos2pbY6WUF39ie03vQSfOMqZj6DdJTkVNCQgD2z31D
rrLmRf0dekzmdP7KtccHHrjjJN9nVBvAhh9ydcUp8PLy0Vn47q+iTMdOnUS256qA
tc8As9QXLo45ciFJJSexqy0XZh078QRUu9cTWpPKyzFR+66PJRJ20Vr4JDeGbBXH
2q75EvP/fWd2Fj0ZBiwkUW56I/6EhaMwp/uR1Wtb74ZNcs+ULIZM0Fhgji84+bAr
GxSuSj37AgMBAAECggEAAVY/AFm+ZyjCZarLTlg267JTQ3DXK9x6s3CdVIot8GQm
hmZvuZNiHoRXQU4tafmADK/oLQ2C8DayeY1+tgOVn3wd6FrZxpuubH0yrQKwXOuY
os6a8RiwvVv+16RYFBf5rthz5NI+2B+7Z+Fj7NIYj/PXRm6EVKiSWS2AZ04RLNs6
1oMVqeSy7xNrqKLOz3BX23vksoW2ixZ8MCpBWuHJ3F30uMCh7lc8hWH7x0rcqfg2
wQV/Om7uAq3hUfeqwjpHkLP872fNJM/h5pLAK4IJ9Lr5H5YeGVgX3yItiu2Vm6WT
ob5gUtF/fGt92x0BxeSCnBHU2qV8DZJfI7dY1V9lQQKBgQDmoQZ4ucAdD3uzHQLf
UBYcyFghdTVWQcf0W+qj4WDkKo6Q05T75BJ2s+4D2op3bLbP/YYjiT6nuyMENlll
HpUshGnzVfS33H2MfzI/Ly6npGNEIx4Wf4B2x0b4q9z9J48wAjI/MaIZ2DhyZJ3y
1Bu08az8pwl3slEU3XohwDoISwKBgQDLtJr66usj25vEyK/7hekJhazaLK5K3kgV
2kDHPOQ71DYA2RyC8FH2Dz1hi2nXnR6L7CPzAJo6jpELBpNX5aoNtkgxRAf8CoLp
tbHX07zoDk85ZDqAqh5CHFz6zfq6187Z4nexAtfY1et6YioG26Sxyr0jFxikHaQW
vJedhGJzEQKBgCDY0kkje38oE2AhQ6V2jI+w4Qxy2xPb7pSY+sQ4d0pH3WI3IEL3
6sFJQx79Yzc7HpZk71PkWi4dcxFIhFbokipy+XwUw/PjzWXTP97L44Mw4Ip1zfU6
V5uTKkKEh8bueXBG/80MTqALsY5pUi2hlAijWxXo3GpV1UJ5gMmJzTodAoGATdlp
2TbqQjvtXdksmD1nAAKcOo0U1vv4JJHSa9Izj0HcmZpfsRLS3+yXEq5K9uHPCL5o
RrgWOQa/G62Zpd/Zi3/8Owe63XHO8i5EFy2OZkkBsfdB/GYHRlC8oAUUK0/Kd656
+6UQhIfMhGr7kL9kQ6YtfjmXazEAwse0UbiEP2ECgYEAnhiPT6WTnVU5FkkiEreY
oJMyYaQNekjCae5zBEsB6P+KiLu0+pMexVPe0YY14RqSkMt5o94V1WrPAw54oV9H
ud/4+vbrfB7bXOQld9TRYLdxzRpCkcDqccDQOYe7js/vdoAgRW4+MSuehLiouvrq
oB/438xK9x6wVaHxMNcexYc=
-----END PRIVATE KEY-----`

/** Returns the certificate of the tests with another end date, signed again with its own key. */
export function certificateUntil (end: Date): string {
  const before = new X509Certificate(certificate).raw
  // Splits SEQUENCE { SEQUENCE { signed part }, algorithm, signature }, longer than 127 bytes and shorter than 65,536.
  const signed = Buffer.from(element(before, contentAt(before, 0)))
  const algorithm = element(before, contentAt(before, 0) + signed.length)
  // Finds the end date: it has a year of four digits, and the start date one of two, so this form occurs once.
  const notAfter = signed.indexOf(Buffer.from([0x18, 0x0f]))
  signed.write(end.toISOString().replace(/[-:T]|\.\d+/g, ''), notAfter + 2, 'latin1')
  const signature = wrapped(0x03, Buffer.concat([Buffer.from([0]), sign('sha256', signed, certificateKey)]))
  const whole = wrapped(0x30, Buffer.concat([signed, algorithm, signature]))
  return `-----BEGIN CERTIFICATE-----\n${
    whole.toString('base64').replace(/.{64}/g, '$&\n')
  }\n-----END CERTIFICATE-----\n`
}

function lengthAt (der: Buffer, at: number): { readonly length: number, readonly size: number } {
  const first = der.readUInt8(at + 1)
  return first < 0x80
    ? { length: first, size: 2 }
    : { length: der.readUIntBE(at + 2, first & 0x7f), size: 2 + (first & 0x7f) }
}

function contentAt (der: Buffer, at: number): number {
  return at + lengthAt(der, at).size
}

function element (der: Buffer, at: number): Buffer {
  const { length, size } = lengthAt(der, at)
  return der.subarray(at, at + size + length)
}

function wrapped (tag: number, content: Buffer): Buffer {
  const { length } = content
  return Buffer.concat([
    Buffer.from(
      length < 0x80 ? [tag, length] : length < 0x100 ? [tag, 0x81, length] : [tag, 0x82, length >> 8, length & 0xff]
    ),
    content
  ])
}
