package httpd

import (
	"crypto/tls"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/service"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/internal/certs"
)

// openCertificate loads the configured certificate, and loads it again whenever its files change.
func openCertificate(cfg *settings.HTTP, say service.SayFunc) (_ *tls.Config, expires func() time.Time, err error) {
	set, err := certs.Load(cfg.Pair())
	if err != nil {
		// Compare the text, because package tls has no type for this error.
		if cfg.Key == "" && strings.Contains(err.Error(), "rather than a key") {
			err = failure.Text("%w; %s FILE names its key", err, failure.Flag("key"))
		}
		return nil, nil, failure.Local.Wrap(err)
	}
	service.LogCertificate(set, "https", say)
	return certs.ServerConfig(set.GetCertificate), set.Expires, nil
}

// ownCertificate loads the server's self-made certificate, or creates it.
func ownCertificate(dir string, owners []int, addrs []string, print func(format string, args ...any)) (_ *tls.Config, expires func() time.Time, err error) {
	cert, created, err := certs.Own(dir, owners, certs.HostsOf(addrs...)...)
	if err != nil {
		return nil, nil, failure.InSetting("https", failure.Local.Errorf("%s without %s: %w; %s FILE names another certificate", failure.Flag("https"), failure.Flag("cert"), err, failure.Flag("cert")))
	}
	said := map[bool]string{true: "made the", false: "the"}[created]
	print("HTTPS: %s self-signed certificate %s, which is valid until %s; clients can check it with haul get --fingerprint %s",
		said, certs.OwnFile(dir), cert.Leaf.NotAfter.UTC().Format(time.DateOnly), certs.Fingerprint(cert.Leaf))
	config := certs.ServerConfig(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert, nil })
	return config, func() time.Time { return cert.Leaf.NotAfter }, nil
}
