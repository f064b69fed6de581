package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestByteSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "512": 512, "512B": 512, "64k": 65536, "64K": 65536, "64KiB": 65536, "64kB": 64000, "64KB": 64000,
		"10MB": 10_000_000, "20m": 20 << 20, "20M": 20 << 20, "20MiB": 20 << 20, "2G": 2 << 30, "3GB": 3_000_000_000, "1TB": 1e12, "1TiB": 1 << 40,
	} {
		var s byteSize
		if err := s.Set(text); err != nil || int64(s) != want {
			t.Errorf("%q is %d (%v), want %d", text, int64(s), err, want)
		}
		var again byteSize
		if err := again.Set(s.String()); err != nil || again != s {
			t.Errorf("%q is written as %q, which is read as %d (%v)", text, s.String(), int64(again), err)
		}
	}
	for _, text := range []string{"", "k", "-1", "1.5M", "1kk", "1X", "9999999999G", "B1", "1 M"} {
		var s byteSize
		if err := s.Set(text); err == nil || !strings.Contains(err.Error(), "haul help sizes") {
			t.Errorf("%q is taken for %d (%v)", text, int64(s), err)
		}
	}
}

// Every row of the table in the help text is what Set reads.
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
		var want byteSize
		if err := want.Set(strings.ReplaceAll(bytes, ",", "")); err != nil {
			t.Errorf("%q: %v", m[0], err)
		}
		for _, u := range units {
			var got byteSize
			if err := got.Set("1" + u); err != nil || got != want {
				t.Errorf("1%s is %d (%v), and the help says %d", u, int64(got), err, int64(want))
			}
		}
	}
	if rows != 8 {
		t.Errorf("found %d units in the help, want 8:\n%s", rows, help)
	}
}

// Every flag whose value is a size takes units, whatever the command.
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
