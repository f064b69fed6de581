package httpend

import (
	"net"
	"net/http/httptest"
	"testing"
)

// A page whose name has the address of this server is refused; programs, and pages under an address
// or a known name, are not.
func TestAdmits(t *testing.T) {
	for _, c := range []struct {
		host, origin         string
		loopback, everywhere bool // whether it is admitted on localhost only, and elsewhere
	}{
		{"127.0.0.1:8080", "", true, true}, {"localhost:8080", "", true, true}, {"LOCALHOST.", "", true, true}, {"[::1]:8080", "", true, true}, {"[::1]", "", true, true}, {"192.0.2.1", "", true, true},
		{"files.example", "", true, true}, {"Files.Example.:8080", "http://files.example:8080", true, true}, {"192.0.2.1:80", "http://192.0.2.1", true, true}, {"192.0.2.1", "null", true, true},
		{"", "", true, true}, {"", "http://evil.example", true, true},
		{"evil.example", "", false, true}, {"evil.example:8080", "", false, true}, {"localhost.evil.example", "", false, true}, {"127.0.0.1.evil.example", "", false, true}, {".", "", false, true},
		{"evil.example", "http://evil.example", false, false}, {"evil.example:8080", "null", false, false}, {"evil.example", "http://127.0.0.1", false, false}, {"x.files.example", "http://x", false, false},
	} {
		r := httptest.NewRequest("GET", "/f", nil)
		if r.Host = c.host; c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		known := Known([]string{"files.example"})
		if a, b := Admits(r, true, known), Admits(r, false, known); a != c.loopback || b != c.everywhere {
			t.Errorf("Host %q, Origin %q: %v on localhost, %v elsewhere", c.host, c.origin, a, b)
		}
	}
	for addr, want := range map[string]bool{"127.0.0.1": true, "127.1.2.3": true, "::1": true, "::ffff:127.0.0.1": true, "0.0.0.0": false, "::": false, "192.0.2.1": false} {
		if got := Loopback(&net.TCPAddr{IP: net.ParseIP(addr), Port: 80}); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
	if Loopback(&net.UnixAddr{Name: "/run/x", Net: "unix"}) {
		t.Error("a unix socket counts as a loopback address")
	}
}
