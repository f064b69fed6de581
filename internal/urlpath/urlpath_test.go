package urlpath

import (
	"net/url"
	"testing"
)

func TestAppend(t *testing.T) {
	for name, want := range map[string]string{
		"": "", "boot/a-b_c.d~e": "boot/a-b_c.d~e", "a b+c%?#": "a%20b%2Bc%25%3F%23", "ä\x00\xff": "%C3%A4%00%FF",
	} {
		got := string(Append(nil, name))
		if got != want {
			t.Errorf("%q: got %q", name, got)
		}
		if back, err := url.PathUnescape(got); back != name || err != nil {
			t.Errorf("%q became %q, and is read as %q: %v", name, got, back, err)
		}
	}
	if got := string(Append([]byte("http://h/"), "x y")); got != "http://h/x%20y" {
		t.Errorf("got %q", got)
	}
}

// MayHoldPassword returns true for any text that could contain a password, even if it is not a valid
// URL.
func TestMayHoldPassword(t *testing.T) {
	for s, want := range map[string]bool{
		"tftp://host/name":             false,
		"tftp://user@host/name":        false,
		"tftp://host:69/a@b":           true, // "host:69/a" could be a user and a password
		"tftp://user:secret@host/name": true,
		"tftp://user%3asecret@host":    true,
		"user:secret@host/name":        true,
		"sftp://user:a@b/c%zz@host/f":  true,
		"http://[::1]:80/name":         false,
	} {
		if got := MayHoldPassword(s); got != want {
			t.Errorf("%q may hold a password: %v, want %v", s, got, want)
		}
	}
}
