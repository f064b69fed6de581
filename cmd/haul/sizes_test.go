package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
)

// Set accepts every row of the table in the help text.
func TestSizesHelp(t *testing.T) {
	code, help, _ := haul(t, "help", "sizes")
	if code != 0 {
		t.Fatalf("haul help sizes: exit code %d", code)
	}
	rows := 0
	for _, m := range regexp.MustCompile(`([KMGT])(, [KMGT]iB)? +([0-9,]{3,})|([KMGT]B) +([0-9,]{3,})`).FindAllStringSubmatch(help, -1) {
		rows++
		units, bytes := []string{m[1], strings.TrimPrefix(m[2], ", ")}, m[3]
		if m[4] != "" {
			units, bytes = []string{m[4]}, m[5]
		}
		var want console.ByteSize
		if err := want.Set(strings.ReplaceAll(bytes, ",", "")); err != nil {
			t.Errorf("%q: %v", m[0], err)
		}
		for _, u := range units {
			var got console.ByteSize
			if err := got.Set("1" + u); err != nil || got != want {
				t.Errorf("1%s is %d (%v), and the help says %d", u, int64(got), err, int64(want))
			}
		}
	}
	if rows != 8 {
		t.Errorf("found %d units in the help, want 8:\n%s", rows, help)
	}
}

// Every flag for a size accepts units, in every command.
func TestSizeFlags(t *testing.T) {
	sizes := 0
	for _, cmd := range allCommands(newRoot()) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() != "SIZE" {
				return
			}
			sizes++
			if err := f.Value.Set("3MB"); err != nil || f.Value.String() != "3MB" {
				t.Errorf("%s --%s 3MB: %s (%v)", cmd.CommandPath(), f.Name, f.Value, err)
			}
		})
		for _, name := range []string{"limit", "max-upload", "memory", "sftp-rate", "http-rate", "size", "max-bytes"} {
			if f := cmd.Flags().Lookup(name); f != nil && f.Value.Type() != "SIZE" {
				t.Errorf("%s --%s takes no SIZE but a %s", cmd.CommandPath(), name, f.Value.Type())
			}
		}
	}
	if sizes < 6 {
		t.Errorf("found %d flags that take a size", sizes)
	}
}
