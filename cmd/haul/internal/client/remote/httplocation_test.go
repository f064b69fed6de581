package remote

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

func TestParseHTTP(t *testing.T) {
	for s, want := range map[string]Location{
		"http://host":                 {site: webSite{root: "http://host/"}, Path: ""},
		"HTTPS://host/a/b":            {site: webSite{root: "https://host/"}, Path: "a/b"},
		"http://me@host:8080/a%20b/":  {site: webSite{root: "http://host:8080/", user: "me"}, Path: "a b/"},
		"http://a%40b@host/":          {site: webSite{root: "http://host/", user: "a@b"}, Path: ""},
		"https://host/a?x=1&y=%2F":    {site: webSite{root: "https://host/", query: "x=1&y=%2F"}, Path: "a"},
		"http://[::1]:80/a+b":         {site: webSite{root: "http://[::1]:80/"}, Path: "a+b"},
		"http://host:/a":              {site: webSite{root: "http://host/"}, Path: "a"},
		"http://host/caf%E9":          {site: webSite{root: "http://host/"}, Path: "caf\xe9"},
		"http://host/gr%C3%BCn%25/*x": {site: webSite{root: "http://host/"}, Path: "grün%/*x"},
	} {
		got, err := Parse(s)
		want.Text, want.Protocol = s, HTTP
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", s, got, err, want)
		}
	}
	for s, says := range map[string]string{
		"http://":             "no host",
		"http:///a":           "no host",
		"http://@host/a":      "user is empty",
		"http://me:x@host/a":  "password",
		"http://host/a#b":     "%23",
		"http://host:70000/a": "no port",
		"http://host:x/a":     "invalid port",
		"http://host/a%2Fb":   "slash",
		"http://host/a%00b":   "NUL",
		"http://host/%zz":     "invalid URL escape",
		"http://a%3Ab@host/":  "colon",
		"http://[host]/a":     "invalid host",
	} {
		_, err := Parse(s)
		if !errors.Is(err, failure.Usage) || !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%s: %v, which does not say %q", s, err, says)
		}
	}
}
