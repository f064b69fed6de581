package webclient

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

func TestIsInternal(t *testing.T) {
	for text, want := range map[string]bool{
		"8.8.8.8": false, "172.15.0.1": false, "172.32.0.1": false, "100.63.0.1": false, "100.128.0.1": false, "198.20.0.1": false, "192.0.1.1": false,
		"2600::1": false, "3fff:ffff::1": false, "::ffff:8.8.8.8": false, "64:ff9b::808:808": false, "2002:808:808::1": false,
		"127.0.0.1": true, "127.255.255.254": true, "0.0.0.0": true, "0.1.2.3": true, "10.0.0.1": true, "172.16.0.1": true, "172.31.255.255": true, "192.168.1.1": true,
		"169.254.169.254": true, "100.64.0.1": true, "100.127.255.255": true, "192.0.0.1": true, "198.18.0.1": true, "198.19.0.1": true, "224.0.0.1": true, "239.1.1.1": true, "240.0.0.1": true, "255.255.255.255": true,
		"::": true, "::1": true, "::127.0.0.1": true, "fe80::1": true, "fe80::1%lo": true, "fec0::1": true, "fc00::1": true, "fd00:ec2::254": true, "ff02::1": true,
		"::ffff:127.0.0.1": true, "::ffff:10.0.0.1": true, "::ffff:0.0.0.0": true, "64:ff9b::7f00:1": true, "64:ff9b::a9fe:a9fe": true, "64:ff9b::a00:1": true, "64:ff9b:1::1": true,
		"2002:7f00:1::": true, "2002:a00:1::1": true, "2001:0:1::1": true, "1::1": true, "4000::1": true,
	} {
		if got := isInternal(netip.AddrPortFrom(netip.MustParseAddr(text), 80)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// leadTo makes a lab redirect every request to a server.
func (l *lab) leadTo(to string) {
	l.setHook(func(w http.ResponseWriter, r *http.Request, _ int) bool {
		http.Redirect(w, r, to+"/f", http.StatusTemporaryRedirect)
		return true
	})
}

// guarded returns a client of the lab that follows redirects to the given servers only, and for which
// all servers have public addresses except those of `internal`.
func (l *lab) guarded(o Config, internal []*lab, allowed ...string) *Client {
	o.Redirect = func(to *url.URL) error {
		if slices.Contains(allowed, "http://"+to.Host) {
			return nil
		}
		return errors.New("not allowed")
	}
	c := l.client(o)
	c.guard.internal = func(at netip.AddrPort) bool {
		for _, i := range internal {
			if strings.HasSuffix(i.URL, ":"+portOf(&url.URL{Host: at.String()})) {
				return true
			}
		}
		return false
	}
	return c
}

// With Config.Redirect, redirects are followed only to servers that it allows, whatever the method.
func TestRedirectAllowed(t *testing.T) {
	t.Parallel()
	other := startLab(t, map[string][]byte{"f": []byte("hello")})
	l := startLab(t, nil)
	l.leadTo(other.URL)
	c := l.guarded(Config{}, nil)
	_, err := c.Open(t.Context(), "f")
	wantIs(t, "GET", err, ErrProtocol)
	if errors.Is(err, store.ErrUnavailable) || len(l.asked()) != 1 {
		t.Errorf("after %d requests: %v", len(l.asked()), err)
	}
	wantIs(t, "DELETE", c.Remove(t.Context(), "f"), ErrProtocol)
	_, err = c.Stat(t.Context(), "f")
	wantIs(t, "HEAD", err, ErrProtocol)
	_, err = putFile(t, c, []byte("x"), treecopy.Options{})
	wantIs(t, "PUT", err, ErrProtocol)
	if n := len(other.asked()); n > 0 {
		t.Errorf("%d requests reached the other server", n)
	}
	wantFetch(t, openRemoteFile(t, l.guarded(Config{}, nil, other.URL), "f"), []byte("hello"), 0)

	// A server may redirect to itself, and from http to https.
	self := startLab(t, map[string][]byte{"f": []byte("hello")})
	self.setHook(func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if r.URL.Path == "/near" {
			http.Redirect(w, r, "/f", http.StatusFound)
		}
		return r.URL.Path == "/near"
	})
	wantFetch(t, openRemoteFile(t, self.guarded(Config{}, nil), "near"), []byte("hello"), 0)
	for to, want := range map[string]bool{
		"https://a.example/": true, "https://A.example:443/f": true, "https://a.example:8443/": false, "https://b.example/": false, "http://a.example:8080/": false,
	} {
		from, _ := url.Parse("http://a.example/")
		u, _ := url.Parse(to)
		if got := isUpgrade(from, u); got != want {
			t.Errorf("from http to %s: %v", to, got)
		}
	}
}

// A server with a public address does not lead to an internal one, even if the name is allowed. The
// address is what counts that the name has when the connection is made.
func TestRedirectToInternal(t *testing.T) {
	t.Parallel()
	inner := startLab(t, map[string][]byte{"f": []byte("secret")})
	named := strings.Replace(inner.URL, "127.0.0.1", "localhost", 1)
	l := startLab(t, nil)
	for _, to := range []string{inner.URL, named} {
		for _, dial := range []func(context.Context, string, string) (net.Conn, error){nil, new(net.Dialer).DialContext} {
			l.leadTo(to)
			_, err := l.guarded(Config{Dial: dial}, []*lab{inner}, to).Open(t.Context(), "f")
			wantIs(t, to, err, ErrProtocol)
			if _, ok := errors.AsType[*net.OpError](err); ok || errors.Is(err, fs.ErrPermission) {
				t.Errorf("%#v", err)
			}
			// From one internal address to another one, redirects are followed.
			wantFetch(t, openRemoteFile(t, l.guarded(Config{Dial: dial}, []*lab{l, inner}, to), "f"), []byte("secret"), 0)
		}
	}

	// A public server between two internal ones does not lead to the second one, either, although
	// there is an open connection to that.
	middle := startLab(t, nil)
	middle.leadTo(named)
	c := l.guarded(Config{}, []*lab{l, inner}, named, middle.URL)
	l.leadTo(middle.URL)
	_, err := c.Open(t.Context(), "f")
	wantIs(t, "by a public server", err, ErrProtocol)
	l.leadTo(named)
	wantFetch(t, openRemoteFile(t, c, "f"), []byte("secret"), 0)
	before := len(inner.asked())
	l.leadTo(middle.URL)
	_, err = c.Open(t.Context(), "f")
	wantIs(t, "by a public server, later", err, ErrProtocol)
	if len(inner.asked()) != before {
		t.Error("the internal server was asked")
	}
}

// If the name of a server had a public address, it cannot get that of this machine later.
func TestRebound(t *testing.T) {
	t.Parallel()
	l := startLab(t, map[string][]byte{"f": []byte("hello")})
	c := l.guarded(Config{}, nil)
	wantFetch(t, openRemoteFile(t, c, "f"), []byte("hello"), 0)
	for _, h := range []*http.Client{c.any, c.own} {
		h.CloseIdleConnections()
	}
	c.guard.internal = func(netip.AddrPort) bool { return true }
	_, err := c.Open(t.Context(), "f")
	wantIs(t, "with another address", err, ErrProtocol)

	ctx := context.WithValue(t.Context(), destinationKey{}, destination{host: "a:80", own: true, fromPublic: true})
	if err := c.guard.check(ctx, "10.0.0.1:80"); err != nil {
		t.Errorf("a name with public and private addresses: %v", err)
	}
}

// A user in the URL of a redirect is not sent, nor a login to the own server under another scheme.
func TestRedirectWithUser(t *testing.T) {
	t.Parallel()
	other := startLab(t, map[string][]byte{"f": []byte("hello")})
	l := startLab(t, nil)
	l.leadTo(strings.Replace(other.URL, "http://", "http://root:toor@", 1))
	c := l.client(Config{User: "me", Eager: true, Password: func(context.Context, string, string, string) (string, string, error) { return "me", "secret", nil }})
	wantFetch(t, openRemoteFile(t, c, "f"), []byte("hello"), 0)
	for _, r := range other.asked() {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("the other server was sent %v", r.Header)
		}
	}
	for _, to := range []string{"https://h/", "http://h:81/", "http://i/"} {
		a, _ := url.Parse("http://h/")
		b, _ := url.Parse(to)
		if sameOrigin(a, b) {
			t.Errorf("%s counts as the same server", to)
		}
	}
}
