package main

import (
	"strings"
	"testing"
)

// Every example with --unchanged also has -p. Without -p, a copied file does not get its source's
// time, so --unchanged, which compares times, would copy every file again.
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
