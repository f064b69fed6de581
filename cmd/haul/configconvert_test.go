package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/config/convert"
)

// A command line becomes a file of the same effect, which "haul serve" takes.
func TestConfigConvertWords(t *testing.T) {
	old := filepath.Join(t.TempDir(), "old.toml")
	if err := os.WriteFile(old, []byte("user = 'boot'\n[tftp]\nmtu = 1400\nblksize = 1024\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]string{
		"serve --tftp :69 --upload create /srv":                        "dirs = [\"/srv\"]\n\n[tftp]\nlisten = [\":69\"]\n\n[files]\nupload = \"create\"\n",
		"haul serve /srv -qn":                                          "dirs = [\"/srv\"]\n\n[log]\nquiet = true\n",
		"/usr/bin/haul serve --blksize 512 --config " + old + " /a /b": "dirs = [\"/a\", \"/b\"]\nuser = \"boot\"\n\n[tftp]\nmtu = 1400\nblksize = 512\n",
	} {
		for _, begin := range [][]string{{"config", "convert"}, {"config", "convert", "--"}} {
			code, out, errs := haul(t, append(begin, strings.Fields(words)...)...)
			if code != 0 || out != want || errs != "" {
				t.Errorf("%q %s: exit code %d, %s, printed\n%s\nwant\n%s", begin, words, code, errs, out, want)
			}
		}
	}
}

// Each file has its converter.
func TestConfigConvertFiles(t *testing.T) {
	for flag, text := range map[string]string{"--tftpd-hpa": "TFTP_DIRECTORY=/srv/x\n", "--dnsmasq": "enable-tftp\ntftp-root=/srv/x\n"} {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := haul(t, "config", "convert", flag, name)
		if code != 0 || !strings.Contains(out, "\ndirs = [\"/srv/x\"]\n") || errs != "" {
			t.Errorf("%s: exit code %d, %s, printed\n%s", flag, code, errs, out)
		}
	}
}

func TestConfigConvertFails(t *testing.T) {
	dir := t.TempDir()
	large, wrong := filepath.Join(dir, "large"), filepath.Join(dir, "wrong")
	for name, text := range map[string]string{large: strings.Repeat("#\n", convert.MaxFile), wrong: "\nTFTP_OPTIONS='-s\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, exitUsage, "name one thing to convert"},
		{[]string{"--dnsmasq", wrong, "--tftpd-hpa", wrong}, exitUsage, "name one thing to convert"},
		{[]string{"--", "haul"}, exitUsage, "the command line is none of haul serve"},
		{[]string{"--", "get", "host:f"}, exitUsage, "the command line is none of haul serve"},
		{[]string{"--", "serve", "--tfpt", ":69"}, exitUsage, `there is no flag --tfpt in "haul serve"; did you mean --tftp?`},
		{[]string{"--", "serve"}, exitUsage, "no directory is named"},
		{[]string{"--tftp", ":69", "/srv"}, exitUsage, `there is no flag --tftp in "haul config convert"`},
		{[]string{"--tftpd-hpa", wrong}, exitUsage, wrong + ":2: the quote ' is not closed"},
		{[]string{"--tftpd-hpa", filepath.Join(dir, "none")}, exitLocal, filepath.Join(dir, "none") + ": "},
		{[]string{"--dnsmasq", large}, exitLocal, large + ": it has more than 1048576 bytes"},
		{[]string{"--dnsmasq", dir}, exitLocal, "not a regular file"},
	} {
		code, out, errs := haul(t, append([]string{"config", "convert"}, c.args...)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%q: exit code %d, %s%s; want %d and %q", c.args, code, out, errs, c.code, c.says)
		}
	}
}
