package remote

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/openssh"
)

func TestParse(t *testing.T) {
	type target = openssh.Target
	for s, want := range map[string]Location{
		// URLs
		"sftp://host/srv/a":           {server: target{Host: "host"}, Path: "/srv/a"},
		"SFTP://host/a":               {server: target{Host: "host"}, Path: "/a"},
		"sftp://me@host:2222/a":       {server: target{User: "me", Host: "host", Port: 2222}, Path: "/a"},
		"sftp://host":                 {server: target{Host: "host"}, Path: ""},
		"sftp://host/":                {server: target{Host: "host"}, Path: "/"},
		"sftp://host:/a":              {server: target{Host: "host"}, Path: "/a"},
		"sftp://host/~":               {server: target{Host: "host"}, Path: ""},
		"sftp://host/~/":              {server: target{Host: "host"}, Path: ""},
		"sftp://host/~/a/b":           {server: target{Host: "host"}, Path: "a/b"},
		"sftp://host/%7E/a":           {server: target{Host: "host"}, Path: "a"},
		"sftp://host/~/~a":            {server: target{Host: "host"}, Path: "./~a"},
		"sftp://host/~//etc":          {server: target{Host: "host"}, Path: "etc"},
		"sftp://host/~other/a":        {server: target{Host: "host"}, Path: "/~other/a"},
		"sftp://host/a%20b%3F%25":     {server: target{Host: "host"}, Path: "/a b?%"},
		"sftp://host/a+b;c":           {server: target{Host: "host"}, Path: "/a+b;c"},
		"sftp://host/gr%C3%BCn":       {server: target{Host: "host"}, Path: "/grün"},
		"sftp://host/x%FF":            {server: target{Host: "host"}, Path: "/x\xff"},
		"sftp://host/a:b@c":           {server: target{Host: "host"}, Path: "/a:b@c"},
		"sftp://host//a":              {server: target{Host: "host"}, Path: "//a"},
		"sftp://a%40b.c@host/x":       {server: target{User: "a@b.c", Host: "host"}, Path: "/x"},
		"sftp://a@b.c@host/x":         {server: target{User: "a@b.c", Host: "host"}, Path: "/x"},
		"sftp://a%3Ab@host/x":         {server: target{User: "a:b", Host: "host"}, Path: "/x"},
		"sftp://[2001:db8::1]:22/a":   {server: target{Host: "2001:db8::1", Port: 22}, Path: "/a"},
		"sftp://me@[::1]/a":           {server: target{User: "me", Host: "::1"}, Path: "/a"},
		"sftp://[fe80::1%25eth0]/a":   {server: target{Host: "fe80::1%eth0"}, Path: "/a"},
		"sftp://[fe80::1%eth0]:22/a":  {server: target{Host: "fe80::1%eth0", Port: 22}, Path: "/a"},
		"sftp://192.0.2.1/a/../b/./c": {server: target{Host: "192.0.2.1"}, Path: "/a/../b/./c"},

		// in scp's syntax
		"host:":                {server: target{Host: "host"}, Path: ""},
		"host:a/b":             {server: target{Host: "host"}, Path: "a/b"},
		"host:/a":              {server: target{Host: "host"}, Path: "/a"},
		"me@host:a b%20":       {server: target{User: "me", Host: "host"}, Path: "a b%20"},
		"host:~":               {server: target{Host: "host"}, Path: ""},
		"host:~/a":             {server: target{Host: "host"}, Path: "a"},
		"host:~other/a":        {server: target{Host: "host"}, Path: "~other/a"},
		"host:./~other":        {server: target{Host: "host"}, Path: "./~other"},
		"host:a:b":             {server: target{Host: "host"}, Path: "a:b"},
		"host:22":              {server: target{Host: "host"}, Path: "22"},
		"host:22x/a":           {server: target{Host: "host"}, Path: "22x/a"},
		"host:70000/a":         {server: target{Host: "host"}, Path: "70000/a"},
		"host:../a":            {server: target{Host: "host"}, Path: "../a"},
		"a@b@host:x":           {server: target{User: "a@b", Host: "host"}, Path: "x"},
		"[::1]:a":              {server: target{Host: "::1"}, Path: "a"},
		"me@[fe80::1%eth0]:/a": {server: target{User: "me", Host: "fe80::1%eth0"}, Path: "/a"},

		"s3://bucket":              {Protocol: S3, bucket: "bucket", Path: ""},
		"S3://bucket/":             {Protocol: S3, bucket: "bucket", Path: ""},
		"s3://my.bucket/a%20b/c+d": {Protocol: S3, bucket: "my.bucket", Path: "a b/c+d"},

		// package tftpclient parses these
		"tftp://host/a": {Protocol: TFTP, Path: "tftp://host/a"},
		"TFTP://host/a": {Protocol: TFTP, Path: "TFTP://host/a"},

		// local
		"a":             {Protocol: Local, Path: "a"},
		"./a:b":         {Protocol: Local, Path: "./a:b"},
		"/a:b":          {Protocol: Local, Path: "/a:b"},
		"dir/a:b":       {Protocol: Local, Path: "dir/a:b"},
		":a":            {Protocol: Local, Path: ":a"},
		"-":             {Protocol: Local, Path: "-"},
		".":             {Protocol: Local, Path: "."},
		"./sftp://x":    {Protocol: Local, Path: "./sftp://x"},
		"[::1]":         {Protocol: Local, Path: "[::1]"},
		"[a]b":          {Protocol: Local, Path: "[a]b"},
		"a b/c d":       {Protocol: Local, Path: "a b/c d"},
		"\xff\x1b name": {Protocol: Local, Path: "\xff\x1b name"},
	} {
		want.Text = s
		if want.server.Host != "" {
			want.Protocol = SFTP
		}
		if got, err := Parse(s); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", s, got, err, want)
		}
	}
	if runtime.GOOS == "windows" {
		if l, err := Parse(`C:\a`); err != nil || l.IsRemote() {
			t.Errorf("a drive is %+v, %v", l, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for s, says := range map[string]string{
		"":                                     "empty",
		"a\x00b":                               "NUL",
		"ftp://host/a":                         "sftp://HOST/PATH",
		"http:/host/a":                         "write http://host/a for a URL, and sftp://http/host/a for the file /host/a on a host named http",
		"TFTP:/host/a":                         "write TFTP://host/a for a URL",
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
		"sftp://[::1/a":                        "", // any message will do, because it may blame either bracket
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
		"s3://":                                "no bucket",
		"s3:///a":                              "no bucket",
		"s3://id:secret@bucket/a":              "AWS_PROFILE",
		"s3://bucket/a?b":                      "%3F",
		"https://me:se/secret@host/a":          "may hold a password",
		"ftp://me:secret@host/a":               "may hold a password",
		"tftp://me:secret@host/a":              "may hold a password",
		"tftp://me:x/secret@host/a":            "may hold a password",
		"sftp:/me:secret@host/a":               "may hold a password",
		"sftp:6969/me:secret@host":             "may hold a password",
		"sftp://me:secret@host/a\x00b":         "may hold a password",
		"me%3Asecret@host:6969/a":              "may hold a password",
		"ho st:me:secret@host/a":               "may hold a password",
		"sftp://me%3Asecret@host:x/a":          "may hold a password",
		"tftp://me%3asecret@host/a":            "may hold a password",
		"s3:/bucket/a":                         "write s3://bucket/a for a URL",
	} {
		l, err := Parse(s)
		if err == nil {
			t.Errorf("%q is read as %+v", s, l)
			continue
		}
		if !errors.Is(err, failure.Usage) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %q; want a usage error with %q", s, err, says)
		}
		if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: the message is unsafe: %q", s, err)
		}
	}
}

// Any text is a location or a usage error, and no host is text with a special meaning to a shell or
// to ssh.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"sftp://me@host:22/~/a%20b", "me@host:a", "[::1]:a", "sftp://[fe80::1%25eth0]:1/", "tftp://h/x", "./a:b", "host:6969/a", "a:~b",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := Parse(s)
		if err != nil {
			if !errors.Is(err, failure.Usage) {
				t.Fatalf("%q: %v is no usage error", s, err)
			}
			return
		}
		if l.Text != s {
			t.Errorf("%q is remembered as %q", s, l.Text)
		}
		switch l.Protocol {
		case Local, TFTP:
			if l.Path != s || l.server != (openssh.Target{}) {
				t.Errorf("%q: %+v", s, l)
			}
		case SFTP:
			again, err := openssh.ParseTarget(destination(l.server))
			if err != nil || again != l.server {
				t.Errorf("%q: its server %+v reads back as %+v, %v", s, l.server, again, err)
			}
			if strings.HasPrefix(l.server.Host, "-") || strings.IndexByte(l.Path, 0) >= 0 {
				t.Errorf("%q: %+v", s, l)
			}
		}
	})
}
