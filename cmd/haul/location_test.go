package main

import (
	"runtime"
	"strings"
	"testing"

	"github.com/haul-project/haul/internal/openssh"
)

func TestParseLocation(t *testing.T) {
	type target = openssh.Target
	for s, want := range map[string]location{
		// URLs
		"sftp://host/srv/a":           {server: target{Host: "host"}, path: "/srv/a"},
		"SFTP://host/a":               {server: target{Host: "host"}, path: "/a"},
		"sftp://me@host:2222/a":       {server: target{User: "me", Host: "host", Port: 2222}, path: "/a"},
		"sftp://host":                 {server: target{Host: "host"}, path: ""},
		"sftp://host/":                {server: target{Host: "host"}, path: "/"},
		"sftp://host:/a":              {server: target{Host: "host"}, path: "/a"},
		"sftp://host/~":               {server: target{Host: "host"}, path: ""},
		"sftp://host/~/":              {server: target{Host: "host"}, path: ""},
		"sftp://host/~/a/b":           {server: target{Host: "host"}, path: "a/b"},
		"sftp://host/%7E/a":           {server: target{Host: "host"}, path: "a"},
		"sftp://host/~/~a":            {server: target{Host: "host"}, path: "./~a"},
		"sftp://host/~//etc":          {server: target{Host: "host"}, path: "etc"},
		"sftp://host/~other/a":        {server: target{Host: "host"}, path: "/~other/a"},
		"sftp://host/a%20b%3F%25":     {server: target{Host: "host"}, path: "/a b?%"},
		"sftp://host/a+b;c":           {server: target{Host: "host"}, path: "/a+b;c"},
		"sftp://host/gr%C3%BCn":       {server: target{Host: "host"}, path: "/grün"},
		"sftp://host/x%FF":            {server: target{Host: "host"}, path: "/x\xff"},
		"sftp://host/a:b@c":           {server: target{Host: "host"}, path: "/a:b@c"},
		"sftp://host//a":              {server: target{Host: "host"}, path: "//a"},
		"sftp://a%40b.c@host/x":       {server: target{User: "a@b.c", Host: "host"}, path: "/x"},
		"sftp://a@b.c@host/x":         {server: target{User: "a@b.c", Host: "host"}, path: "/x"},
		"sftp://a%3Ab@host/x":         {server: target{User: "a:b", Host: "host"}, path: "/x"},
		"sftp://[2001:db8::1]:22/a":   {server: target{Host: "2001:db8::1", Port: 22}, path: "/a"},
		"sftp://me@[::1]/a":           {server: target{User: "me", Host: "::1"}, path: "/a"},
		"sftp://[fe80::1%25eth0]/a":   {server: target{Host: "fe80::1%eth0"}, path: "/a"},
		"sftp://[fe80::1%eth0]:22/a":  {server: target{Host: "fe80::1%eth0", Port: 22}, path: "/a"},
		"sftp://192.0.2.1/a/../b/./c": {server: target{Host: "192.0.2.1"}, path: "/a/../b/./c"},

		// as scp has it
		"host:":                {server: target{Host: "host"}, path: ""},
		"host:a/b":             {server: target{Host: "host"}, path: "a/b"},
		"host:/a":              {server: target{Host: "host"}, path: "/a"},
		"me@host:a b%20":       {server: target{User: "me", Host: "host"}, path: "a b%20"},
		"host:~":               {server: target{Host: "host"}, path: ""},
		"host:~/a":             {server: target{Host: "host"}, path: "a"},
		"host:~other/a":        {server: target{Host: "host"}, path: "~other/a"},
		"host:./~other":        {server: target{Host: "host"}, path: "./~other"},
		"host:a:b":             {server: target{Host: "host"}, path: "a:b"},
		"host:22":              {server: target{Host: "host"}, path: "22"},
		"host:22x/a":           {server: target{Host: "host"}, path: "22x/a"},
		"host:70000/a":         {server: target{Host: "host"}, path: "70000/a"},
		"host:../a":            {server: target{Host: "host"}, path: "../a"},
		"a@b@host:x":           {server: target{User: "a@b", Host: "host"}, path: "x"},
		"[::1]:a":              {server: target{Host: "::1"}, path: "a"},
		"me@[fe80::1%eth0]:/a": {server: target{User: "me", Host: "fe80::1%eth0"}, path: "/a"},

		// TFTP's are read by package tftp
		"tftp://host/a": {protocol: ofTFTP, path: "tftp://host/a"},
		"TFTP://host/a": {protocol: ofTFTP, path: "TFTP://host/a"},

		// local
		"a":             {protocol: ofLocal, path: "a"},
		"./a:b":         {protocol: ofLocal, path: "./a:b"},
		"/a:b":          {protocol: ofLocal, path: "/a:b"},
		"dir/a:b":       {protocol: ofLocal, path: "dir/a:b"},
		":a":            {protocol: ofLocal, path: ":a"},
		"-":             {protocol: ofLocal, path: "-"},
		".":             {protocol: ofLocal, path: "."},
		"./sftp://x":    {protocol: ofLocal, path: "./sftp://x"},
		"[::1]":         {protocol: ofLocal, path: "[::1]"},
		"[a]b":          {protocol: ofLocal, path: "[a]b"},
		"a b/c d":       {protocol: ofLocal, path: "a b/c d"},
		"\xff\x1b name": {protocol: ofLocal, path: "\xff\x1b name"},
	} {
		want.text = s
		if want.server.Host != "" {
			want.protocol = ofSFTP
		}
		if got, err := parseLocation(s); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", s, got, err, want)
		}
	}
	if runtime.GOOS == "windows" {
		if l, err := parseLocation(`C:\a`); err != nil || l.remote() {
			t.Errorf("a drive is %+v, %v", l, err)
		}
	}
}

func TestParseLocationRefuses(t *testing.T) {
	for s, says := range map[string]string{
		"":                                     "empty",
		"a\x00b":                               "NUL",
		"ftp://host/a":                         "sftp://HOST/PATH",
		"http:/host/a":                         "two slashes, http://host/a; that file of a host named http is sftp://http/host/a",
		"TFTP:/host/a":                         "two slashes",
		"ssh://host/a":                         "does not speak ssh",
		"scp://host/a":                         "does not speak scp",
		"sftp://":                              "the host is empty",
		"sftp:///a":                            "the host is empty",
		"sftp://@host/a":                       "the user is empty",
		"sftp://me:secret@host/a":              "password",
		"sftp://me;fingerprint=ssh-dss-c1@h/a": "known_hosts",
		"sftp://host/a?b":                      "%3F",
		"sftp://host/a#b":                      "%23",
		"sftp://host/a%zz":                     "%zz",
		"sftp://host/%00":                      "NUL",
		"sftp://m%zz@host/a":                   "%zz",
		"sftp://2001:db8::1/a":                 "brackets",
		"sftp://[host]/a":                      "no IPv6 address",
		"sftp://[::1/a":                        "", // whichever bracket is at fault
		"sftp://host:0/a":                      "port",
		"sftp://host:65536/a":                  "port",
		"sftp://host:x/a":                      "port",
		"sftp://-oProxyCommand=x/a":            "host",
		"sftp://%24(x)/a":                      "host",
		"-oProxyCommand=x:a":                   "host",
		"me@:a":                                "host",
		"@host:a":                              "user",
		"ho st:a":                              "host",
		"ho\x1bst:a":                           "host",
		"[host]:a":                             "no IPv6 address",
		"[host:22]:a":                          "-P",
		"me@[192.0.2.1]:a":                     "no IPv6 address",
		"host:6969/boot/f":                     "is 6969 a port?",
	} {
		l, err := parseLocation(s)
		if err == nil {
			t.Errorf("%q is read as %+v", s, l)
			continue
		}
		if code := exitCode(err); code != exitUsage || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: exit code %d, %q; want %d, and %q", s, code, err, exitUsage, says)
		}
		if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: the message is unsafe: %q", s, err)
		}
	}
}

// Whatever is typed is a location or a usage error, and a host is never what a
// shell or ssh would take for something else.
func FuzzParseLocation(f *testing.F) {
	for _, s := range []string{
		"sftp://me@host:22/~/a%20b", "me@host:a", "[::1]:a", "sftp://[fe80::1%25eth0]:1/", "tftp://h/x", "./a:b", "host:6969/a", "a:~b",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := parseLocation(s)
		if err != nil {
			if exitCode(err) != exitUsage {
				t.Fatalf("%q: %v is no usage error", s, err)
			}
			return
		}
		if l.text != s {
			t.Errorf("%q is remembered as %q", s, l.text)
		}
		switch l.protocol {
		case ofLocal, ofTFTP:
			if l.path != s || l.server != (openssh.Target{}) {
				t.Errorf("%q: %+v", s, l)
			}
		case ofSFTP:
			again, err := openssh.ParseTarget(destination(l.server))
			if err != nil || again != l.server {
				t.Errorf("%q: its server %+v reads back as %+v, %v", s, l.server, again, err)
			}
			if strings.HasPrefix(l.server.Host, "-") || strings.IndexByte(l.path, 0) >= 0 {
				t.Errorf("%q: %+v", s, l)
			}
		}
	})
}
