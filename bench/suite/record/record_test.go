package record

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestAppendAndRead(t *testing.T) {
	want := []Line{
		{Format: Format, Run: "2026-01-02T03:04:05Z", Scenario: Scenario{Name: "a", Load: Load{Size: 5, Loss: 0.01}},
			Contender: Contender{Name: "haul"}, Figures: map[Metric]float64{Rate: 1.5, Failed: 0}, Warnings: []string{"slow"}},
		{Format: Format, Round: -1, Contender: Contender{Name: "dnsmasq"}, Absent: "not installed"},
		{Format: Format, Round: 2, Error: "died"},
	}
	var b bytes.Buffer
	for _, l := range want {
		l.Format = 0 // Append sets it
		if err := Append(&b, l); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "results.jsonl")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, got, want)
	}
}

// The incomplete line of a killed run is no reason to refuse the others, and must not precede the
// next one.
func TestReadSoFar(t *testing.T) {
	var b bytes.Buffer
	for _, name := range []string{"a", "b"} {
		if err := Append(&b, Line{Scenario: Scenario{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	whole := b.Len()
	for name, c := range map[string]struct {
		content string
		lines   int
		bytes   int
	}{
		"whole":        {b.String(), 2, whole},
		"a part more":  {b.String() + `{"format":2,"run":"2`, 2, whole},
		"only a part":  {`{"format":2`, 0, 0},
		"empty":        {"", 0, 0},
		"not its last": {b.String()[:whole-1], 1, whole / 2},
	} {
		path := filepath.Join(t.TempDir(), "results.jsonl")
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		lines, n, err := ReadSoFar(path)
		if err != nil || len(lines) != c.lines || n != int64(c.bytes) {
			t.Errorf("%s: %d lines in %d bytes, %v; want %d in %d", name, len(lines), n, err, c.lines, c.bytes)
		}
	}
	none := filepath.Join(t.TempDir(), "none")
	if lines, n, err := ReadSoFar(none); len(lines) > 0 || n != 0 || err != nil {
		t.Errorf("a file that is not there: %d lines, %d bytes, %v", len(lines), n, err)
	}
	old := filepath.Join(t.TempDir(), "old.jsonl")
	if err := os.WriteFile(old, []byte("{\"format\":1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadSoFar(old); !errors.Is(err, ErrOldFormat) {
		t.Errorf("a file of another format: %v", err)
	}
}

func TestReadRefuses(t *testing.T) {
	if _, err := read(strings.NewReader(`{"format":2}` + "\n" + `{"server":"haul"}`)); !errors.Is(err, ErrOldFormat) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a line without a format: %v", err)
	}
	if _, err := read(strings.NewReader("no JSON")); err == nil {
		t.Error("no error about what is no JSON")
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
