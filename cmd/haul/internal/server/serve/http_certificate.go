package serve

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/internal/certs"
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
	logCertificate(set, "https", s.log.Say)
	s.expires = set.Expires
	return certs.ServerConfig(set.GetCertificate), nil
}

// logCertificate logs what is wrong with a certificate, and when a new one is in force.
func logCertificate(set *certs.Set, name string, say sayFunc) {
	set.Report = func(err error) {
		say(slog.LevelWarn, name+" certificate", slog.String("error", err.Error()))
	}
	set.Taken = func(cert *x509.Certificate) {
		say(slog.LevelInfo, name+" certificate: the new one is in force", slog.Time("expires", cert.NotAfter.UTC()))
	}
	for _, err := range set.Warnings() {
		set.Report(err)
	}
}

// warnUnreadable logs which certificates cannot be loaded again, as the user that this process
// has become may not read them.
func (cfg *Config) warnUnreadable(log *slog.Logger) {
	for name, pair := range map[string]certs.Pair{"https": cfg.HTTP.pair(), "status": cfg.Status.pair()} {
		for _, file := range slices.Compact([]string{pair.Cert, pair.Key}) {
			if err := unreadable(file); err != nil {
				log.Warn(name+" certificate: a new one is not loaded before a restart; let the user that haul runs as read the files (chgrp, chmod 640)",
					"uid", os.Getuid(), "error", err)
			}
		}
	}
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
