package main

import (
	"strings"
	"testing"
)

// Without -p a copy gets the time of the copy, and --unchanged by time would copy every file each
// time. No example does that.
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
	for _, says := range []string{"ConnectTimeout", "not UTF-8", "of the same size and time"} {
		if !strings.Contains(help, says) {
			t.Errorf("haul help copying does not say %q", says)
		}
	}
}
