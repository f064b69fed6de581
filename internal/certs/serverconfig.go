package certs

import "crypto/tls"

// serverSuites are the cipher suites for TLS 1.2 with forward secrecy and authenticated encryption
// (RFC 9325 §4.2). TLS 1.3 has only such suites.
var serverSuites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// ServerConfig returns the configuration of an HTTP/2 and HTTP/1.1 server over TLS 1.3 or 1.2. The
// function `get` returns the certificate for a client, as [Set.GetCertificate] does.
func ServerConfig(get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{GetCertificate: get, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12, CipherSuites: serverSuites}
}
