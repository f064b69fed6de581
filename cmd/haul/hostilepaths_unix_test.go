//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A line break or an escape sequence in a path neither begins a new line nor controls a terminal,
// in a server's errors and in its output.
func TestServeHostilePaths(t *testing.T) {
	const hostile = "evil\nhaul: all is well\x1b[31m"
	dir := filepath.Join(t.TempDir(), hostile)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	none, config := filepath.Join(dir, "none"), filepath.Join(dir, "haul.toml")
	writeFile(t, config, "dirs = '/srv'\nusr = 'x'\n[tftp]\nmtu = 5\n")
	harmless := func(what any, text string) {
		t.Helper()
		if !strings.Contains(text, `evil\nhaul: all is well\x1b[31m`) || strings.Contains(text, "\nhaul: all is well") || strings.Contains(text, "\x1b") {
			t.Errorf("%q prints\n%s", what, text)
		}
	}
	for _, args := range [][]string{
		{"serve", none}, {"serve", "--config", config}, {"config", "check", config}, {"serve", "--config", none}, {"serve", "--config", dir},
		{"serve", dir, "--upload", "create", "--upload-dir", none}, {"serve", dir, "--sftp", "127.0.0.1:0", "--host-keys", none},
		{"serve", ".", "--sftp", "127.0.0.1:0", "--users", none}, {"serve", ".", "--user", hostile}, {"serve", ".", "--root", "10.0.0.0/8=" + none},
		{"serve", ".", "--map", none}, {"serve", ".", "--pcap", none + "/x", "--tftp", "127.0.0.1:0"}, {"serve", ".", "--https", "127.0.0.1:0", "--cert", none},
		{"serve", ".", "--http", "127.0.0.1:0", "--http-auth", none, "--http-plain-auth"}, {"serve", ".", "--metrics", hostile + ":1"},
		{"config", "convert", "--dnsmasq", none}, {"get", "tftp://127.0.0.1:1/x", none + "/x/y"}, {"put", none, "tftp://127.0.0.1:1/x"},
	} {
		root := newRoot()
		root.SetArgs(args)
		var out, printed lockedBuffer
		root.SetOut(&out)
		root.SetErr(&printed)
		cmd, err := root.ExecuteContextC(t.Context())
		if err == nil {
			t.Fatalf("%q succeeds", args)
		}
		printFailure(&printed, cmd, err)
		harmless(args, printed.String())
	}
	c := startChild(t, childOptions{}, dir)
	harmless("a server", c.stop())
	code, said, _ := haul(t, "serve", "-n", dir)
	if code != 0 {
		t.Errorf("a dry run: exit code %d", code)
	}
	harmless("a dry run", said)
}
