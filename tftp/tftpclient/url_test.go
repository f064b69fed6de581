package tftpclient

import (
	"strings"
	"testing"

	"github.com/haul-project/haul/tftp/transfer"
)

func TestParseURL(t *testing.T) {
	tests := []struct {
		url  string
		want Target
	}{
		{"tftp://host/name", Target{Host: "host", Name: "name"}},
		{"TFTP://host:6969/a/b", Target{Host: "host", Port: 6969, Name: "a/b"}},
		{"tftp://host//abs", Target{Host: "host", Name: "/abs"}},
		{"tftp://[2001:db8::1]:70/x", Target{Host: "2001:db8::1", Port: 70, Name: "x"}},
		{"tftp://[fe80::1%25eth0]/x", Target{Host: "fe80::1%eth0", Name: "x"}},
		{"tftp://h/a%20b%3Fc", Target{Host: "h", Name: "a b?c"}},
		{"tftp://h/x;mode=netascii", Target{Host: "h", Name: "x", Mode: transfer.Netascii}},
		{"tftp://h/x;mode=OCTET", Target{Host: "h", Name: "x"}},
		{"tftp://h/", Target{Host: "h"}},
		{"tftp://h", Target{Host: "h"}},
	}
	for _, test := range tests {
		got, err := ParseURL(test.url)
		if err != nil || got != test.want {
			t.Errorf("%s: %+v, %v, want %+v", test.url, got, err, test.want)
		}
	}
	for _, bad := range []string{
		"", "name", "http://h/x", "tftp:x", "tftp:///x", "tftp://user@h/x", "tftp://h/x?y", "tftp://h/x#y",
		"tftp://h:0/x", "tftp://h:65536/x", "tftp://h:x/y", "tftp://h/x;mode=mail", "tftp://h/x%00y", "tftp://h/%zz", "tftp://%zz/",
	} {
		if got, err := ParseURL(bad); err == nil || bad != "" && !strings.Contains(err.Error(), "URL") && !strings.Contains(err.Error(), "parse") {
			t.Errorf("%s: %+v, %v, want a refusal", bad, got, err)
		}
	}
	for _, bad := range []string{"tftp://me:secret@h/x", "tftp://me:secret@h:x/y", "tftp://me:x/secret@h/y", "TFTP://me:secret@h/%zz", "tftp://me:secret@",
		"me:secret@h/x", "tftp:me:secret@h/x", "tftp:/me:secret@h/x", "tftp://me%3Asecret@h/x", "tftp:/me%3asecret@h/x", "tftp:///me:secret@h/x"} {
		_, err := ParseURL(bad)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want a refusal without the password", bad, err)
		}
	}
}

// A parsed URL can be written as a URL again.
func FuzzParseURL(f *testing.F) {
	for _, s := range []string{
		"tftp://host/name", "tftp://[::1]:6969//a/../b", "tftp://h/%2f%3B%25;mode=netascii", "tftp://[fe80::1%25eth0]/x", "tftp://h:69/", "tftp://::",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseURL(s)
		if err != nil {
			return
		}
		b, err := ParseURL(a.String())
		if err != nil || a.Host != b.Host || a.Name != b.Name || a.Mode != b.Mode || a.port() != b.port() {
			t.Errorf("%q is %+v, but %q is %+v (%v)", s, a, a.String(), b, err)
		}
	})
}
