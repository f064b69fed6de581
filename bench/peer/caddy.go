package peer

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
)

// caddyServer returns the recipe for caddy, which serves files with its own module on net/http.
func caddyServer(p program) Server {
	return Server{
		Name: caddy, Version: p.module("github.com/caddyserver/caddy/v2"), Path: p.path, Trade: Trade{Files: true, TLS: true},
		Note: "file_server, without a log", config: caddyConfig,
		args: func(o Options, _ netip.AddrPort) []string {
			return []string{"run", "--adapter", "caddyfile", "--config", o.config}
		},
	}
}

// caddyConfig returns caddy's configuration. It sets up TLS in the same way as package tcpprog, as
// far as Go lets a program choose. Caddy stores nothing, so that all runs have the same conditions.
func caddyConfig(o Options, a netip.AddrPort) string {
	var b strings.Builder
	scheme, tls := "http", ""
	if o.Answer.Cert != "" {
		scheme, tls = "https", fmt.Sprintf("\ttls %s %s {\n\t\tprotocols tls1.3\n\t\tcurves x25519\n\t}\n", o.Answer.Cert, o.Answer.Key)
	}
	fmt.Fprintf(&b, "{\n\tadmin off\n\tauto_https off\n\tpersist_config off\n\tstorage file_system %s\n}\n", filepath.Dir(o.config))
	fmt.Fprintf(&b, "%s://%s {\n\tbind %s\n%s\troot * %s\n\tfile_server\n}\n", scheme, a, a.Addr(), tls, o.Dir)
	return b.String()
}
