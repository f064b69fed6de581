package main

import (
	"strings"
	"testing"
)

// Without -p copies have a time of their own, and --unchanged by time would
// copy all of them every time: no example leads there.
func TestUnchangedExamples(t *testing.T) {
	found := 0
	for line := range strings.Lines(getExamples + "\n" + putExamples) {
		words := splitShell(strings.TrimSpace(line))
		unchanged, preserve := false, false
		for _, w := range words {
			unchanged = unchanged || w == "--unchanged"
			preserve = preserve || w == "-p" || w == "-rp"
		}
		if unchanged {
			found++
		}
		if unchanged && !preserve {
			t.Errorf("example without -p: %s", line)
		}
	}
	if found == 0 {
		t.Error("no example of --unchanged")
	}
	_, help, _ := haul(t, "help", "copying")
	for _, says := range []string{"ConnectTimeout", "SSH_ASKPASS", "not UTF-8", "of the same size and time"} {
		if !strings.Contains(help, says) {
			t.Errorf("haul help copying does not say %q", says)
		}
	}
}

// The help of get and put begins with a line that says what the command does. No
// paragraph is longer than six lines, and what both have in common is elsewhere.
func TestCopyHelpIsShort(t *testing.T) {
	for name, text := range map[string]string{"get": getHelp, "put": putHelp, "copying": copyingHelp} {
		for i, paragraph := range strings.Split(text, "\n\n") {
			if lines := strings.Count(paragraph, "\n") + 1; lines > 6 || i == 0 && lines > 1 {
				t.Errorf("%s: a paragraph of %d lines: %s", name, lines, paragraph)
			}
		}
		if name != "copying" && !strings.Contains(text, `"haul help copying"`) {
			t.Errorf("haul %s --help does not name haul help copying", name)
		}
	}
}
