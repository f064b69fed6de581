package httpd

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/logins"
	"github.com/haul-project/haul/web"
)

// The names of the certificate are known, and those of the settings, of the sockets and of the machine.
func TestKnowsHost(t *testing.T) {
	t.Parallel()
	config, _, err := ownCertificate(t.TempDir(), nil, []string{"cert.example:443"}, func(string, ...any) {})
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{hosts: hostsOf([]string{"files.example", "nas"}, "here.example:80", ":8080")}
	for _, name := range []string{"files.example", "FILES.example", "here.example", "nas", "nas.local"} {
		if !s.knowsHost(name) {
			t.Errorf("%s is unknown", name)
		}
	}
	if s.knowsHost("cert.example") || s.knowsHost("evil.example") || slices.Contains(s.hosts, "files.example.local") {
		t.Error("other names are known")
	}
	s.secure.accept.TLS = config
	if !s.knowsHost("cert.example") || s.knowsHost("evil.example") || s.knowsHost("x.cert.example") {
		t.Error("not exactly the names of the certificate are known, too")
	}
}

// All names are checked on the sockets that only this machine can reach, and elsewhere only those of
// requests with an Origin. Where users log in, none is.
func TestCheckHosts(t *testing.T) {
	p := &port{loopback: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:80")}}
	for _, c := range []struct {
		local, origin string
		users         bool
		refused       bool
	}{
		{"127.0.0.1:80", "", false, true}, {"::ffff:127.0.0.1:80", "", false, true}, {"127.0.0.1:81", "", false, false}, {"192.0.2.1:80", "", false, false},
		{"192.0.2.1:80", "http://evil.example", false, true}, {"", "http://evil.example", false, true}, {"", "", false, false},
		{"127.0.0.1:80", "http://evil.example", true, false},
	} {
		s := &Service{whole: new(web.Account)}
		if c.users {
			s.sessions = new(logins.Sessions)
		}
		r := httptest.NewRequest("GET", "http://evil.example/", nil)
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if host, port, ok := cutPort(c.local); ok {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(host), Port: port}))
		}
		var err error
		s.checkHosts(p, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, err = s.account(r.Context(), web.Visitor{}) })).ServeHTTP(httptest.NewRecorder(), r)
		if _, ok := errors.AsType[strangeHost](err); ok != c.refused {
			t.Errorf("at %q with Origin %q, users %v: %v", c.local, c.origin, c.users, err)
		}
	}
}

// cutPort splits an address, of which IPv6 has no brackets, so that IPv4-mapped ones are not parsed.
func cutPort(local string) (host string, port int, ok bool) {
	i := len(local) - len(":80")
	if i < 0 {
		return "", 0, false
	}
	return local[:i], map[string]int{":80": 80, ":81": 81}[local[i:]], true
}
