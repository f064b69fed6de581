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
		l.Format = 0 // Append says which one it is
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
