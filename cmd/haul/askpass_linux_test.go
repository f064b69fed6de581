package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// askScript writes a program that asks, and records each question in a file.
func askScript(t *testing.T, lines string) (program, asked string) {
	t.Helper()
	dir := t.TempDir()
	program, asked = filepath.Join(dir, "ask"), filepath.Join(dir, "asked")
	text := "#!/bin/sh\nprintf '%s;' \"$1\" >>'" + asked + "'\n" + lines + "\n"
	writeProgram(t, program, text)
	return program, asked
}

// SSH_ASKPASS asks for host keys, passphrases and passwords if there is no terminal, or if it is
// preferred or forced.
func TestAskpass(t *testing.T) {
	const answers = `case "$1" in
*yes/no*) echo yes ;;
Passphrase*) printf '` + lockedPhrase + `\r\nmore\n' ;;
Password*) echo 'open sesame' ;;
esac`
	password := []string{"-o", "PreferredAuthentications=password"}
	for _, c := range []struct {
		name     string
		terminal bool
		env      []string
		flags    []string
		code     int
		asks     string // words of the questions, in order
	}{
		{"forced", true, []string{"SSH_ASKPASS_REQUIRE=force"}, nil, 0, "is not known|Passphrase of the key "},
		{"forced, without a terminal", false, []string{"SSH_ASKPASS_REQUIRE=FORCE"}, password, 0, "is not known|Password of me@"},
		{"preferred", true, []string{"SSH_ASKPASS_REQUIRE=prefer", "DISPLAY=:none"}, password, 0, "is not known|Password of me@"},
		{"no terminal", false, []string{"DISPLAY=:none"}, nil, 0, "is not known|Passphrase"},
		{"no terminal, Wayland", false, []string{"WAYLAND_DISPLAY=none"}, nil, 0, "is not known|Passphrase"},
		{"no terminal and no display", false, nil, nil, exitRefused, ""},
		{"preferred, no display", false, []string{"SSH_ASKPASS_REQUIRE=prefer"}, nil, exitRefused, ""},
		{"never", false, []string{"SSH_ASKPASS_REQUIRE=never", "DISPLAY=:none"}, nil, exitRefused, ""},
		{"--batch", false, []string{"SSH_ASKPASS_REQUIRE=force"}, []string{"--batch"}, exitRefused, ""},
		{"no program", false, []string{"SSH_ASKPASS=", "SSH_ASKPASS_REQUIRE=force"}, nil, exitRefused, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			program, asked := askScript(t, answers)
			// Each case needs its own server, since a server blocks clients after several failed
			// logins.
			l := startLabWith(t, labOptions{locked: true, password: "open sesame"}, map[string]string{"f": ""})
			if err := os.Remove(l.known); err != nil {
				t.Fatal(err)
			}
			o := childOptions{env: append([]string{"SSH_ASKPASS=" + program}, c.env...), attr: &syscall.SysProcAttr{Setsid: true}}
			if c.terminal {
				o.files = []*os.File{newTerminal(t).slave}
				o.attr.Setctty, o.attr.Ctty = true, 3
			}
			said := runChild(t, o, append(append([]string{"ls", "-F", l.config}, c.flags...), "lab:f")...).wantExit(c.code)
			text, _ := os.ReadFile(asked)
			rest := string(text)
			for w := range strings.SplitSeq(c.asks, "|") {
				_, after, ok := strings.Cut(rest, w)
				if !ok {
					t.Errorf("it was asked %q, and not %q", text, c.asks)
				}
				rest = after
			}
			if c.asks == "" && len(text) > 0 {
				t.Errorf("it was asked %q", text)
			}
			if strings.Contains(said, "sesame") || strings.Contains(said, lockedPhrase) {
				t.Errorf("it says %s", said)
			}
		})
	}
}
