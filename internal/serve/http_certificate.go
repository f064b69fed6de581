package serve

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/tcp/certs"
)

// httpSuites are those of TLS 1.2: with forward secrecy and authenticated encryption
// (RFC 9325 §4.2). TLS 1.3 has no others.
var httpSuites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// openCertificate loads the certificate, which is loaded again when its files change.
func (s *httpService) openCertificate() (*tls.Config, error) {
	set, err := certs.Load(s.cfg.HTTP.pair())
	if err != nil {
		if s.cfg.HTTP.Key == "" && strings.Contains(err.Error(), "rather than a key") { // package tls has no type for that
			err = fmt.Errorf("%w; --key FILE names its key", err)
		}
		return nil, failure.Local.Wrap(err)
	}
	set.Report = func(err error) {
		s.log.Say(slog.LevelWarn, "https certificate", slog.String("error", err.Error()))
	}
	for _, err := range set.Warnings() {
		set.Report(err)
	}
	return &tls.Config{
		GetCertificate: set.GetCertificate, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12, CipherSuites: httpSuites,
	}, nil
}

// pair returns the files of the certificate.
func (cfg *HTTP) pair() certs.Pair {
	p := certs.Pair{Cert: cfg.Cert, Key: cfg.Key}
	if p.Key == "" {
		p.Key = p.Cert
	}
	return p
}

// reads returns the directories of the certificate, where a new one will appear.
func (cfg *HTTP) reads() []string {
	if cfg.Cert == "" {
		return nil
	}
	var dirs []string
	for _, file := range []string{cfg.pair().Cert, cfg.pair().Key} {
		dirs = append(dirs, filepath.Dir(file))
		if real, err := filepath.EvalSymlinks(file); err == nil { // as certbot has it
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
