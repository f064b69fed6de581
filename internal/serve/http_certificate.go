package serve

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/tcp/certs"
)

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
	s.expires = set.Expires
	return certs.ServerConfig(set.GetCertificate), nil
}

// ownCertificate loads the certificate that this server makes for itself, or makes it.
func (s *httpService) ownCertificate() error {
	cert, created, err := certs.Own(s.ownCertDir, certs.HostsOf(s.cfg.HTTP.ListenTLS...)...)
	if err != nil {
		return inSetting("https", failure.Local.Errorf("--https without --cert: %w; --cert FILE names another certificate", err))
	}
	s.secure.accept.TLS = certs.ServerConfig(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert, nil })
	s.expires = func() time.Time { return cert.Leaf.NotAfter }
	said := map[bool]string{true: "made the", false: "the"}[created]
	s.cfg.say(s.out, "HTTPS: %s self-signed certificate %s, which is valid until %s; clients can check it with haul get --fingerprint %s",
		said, certs.OwnFile(s.ownCertDir), cert.Leaf.NotAfter.UTC().Format(time.DateOnly), certs.Fingerprint(cert.Leaf))
	return nil
}

// pair returns the files of the certificate.
func (cfg *HTTP) pair() certs.Pair {
	return certs.Pair{Cert: cfg.Cert, Key: cmp.Or(cfg.Key, cfg.Cert)}
}
