package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// --password-file logs in over SFTP as over HTTP, and asks no questions.
func TestPasswordFileOverSFTP(t *testing.T) {
	l := startLabWith(t, labOptions{password: "open sesame"}, map[string]string{"a": "aaa"})
	l.configure("PubkeyAuthentication no")
	secret := filepath.Join(l.home, "password")
	for _, c := range []struct {
		content string
		code    int
		says    string
	}{
		{"open sesame\n", 0, ""},
		{"open sesame\r\nand more\n", 0, ""},
		{"open sesame", 0, ""},
		{"closed sesame\n", exitRefused, "the password given"},
		{"\n", exitLocal, "the first line is empty"},
	} {
		writeFile(t, secret, c.content)
		here := t.TempDir()
		commands := [][]string{{"get", "lab:a", here}, {"put", secret, "lab:put"}, {"ls", "lab:"}, {"df", "lab:"}}
		if c.code != 0 {
			commands = commands[:1] // the server blocks the address after several failures
		}
		for _, words := range commands {
			code, _, msg := haul(t, append([]string{words[0], "-F", l.config, "--password-file", secret}, words[1:]...)...)
			if code != c.code || !strings.Contains(msg, c.says) || strings.Contains(msg, "sesame") {
				t.Errorf("%q with %q: exit code %d, %s", words, c.content, code, msg)
			}
		}
		if c.code == 0 {
			wantFile(t, filepath.Join(here, "a"), "aaa")
		}
	}
	code, _, msg := haul(t, "ls", "-F", l.config, "--password-file", secret+"x", "lab:")
	if code != exitLocal || !strings.Contains(msg, "--password-file") {
		t.Errorf("without the file: exit code %d, %s", code, msg)
	}
}
