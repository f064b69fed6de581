package status

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// docs/status.md describes each field of the JSON, and the bounds of the server.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "docs", "status.md"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for path, v := range map[string]any{"info": Info{}, "transfers": Transfers{}, "series": Series{}, "failures": Failures{}, "machines": Machines{}} {
		_, section, ok := strings.Cut(string(text), "\n### /api/v1/"+path+"\n")
		if !ok {
			t.Fatalf("there is no section on /api/v1/%s", path)
		}
		section, _, _ = strings.Cut(section, "\n### ")
		for _, field := range jsonFields(reflect.TypeOf(v), "") {
			n++
			_, short, _ := strings.Cut(field, "[].")
			if !strings.Contains(section, "`"+field+"`") && (short == "" || !strings.Contains(section, "`"+short+"`")) {
				t.Errorf("/api/v1/%s: %s is not documented", path, field)
			}
		}
	}
	if n < 50 {
		t.Errorf("found %d fields; is the search at fault?", n)
	}
	for _, want := range []string{
		fmt.Sprintf("the %d fastest transfers", maxRows), fmt.Sprintf("The latest %d", maxFailureRows), fmt.Sprintf("the latest %d, the latest first", maxFailures), fmt.Sprintf("%d bytes at most |", maxName),
		fmt.Sprintf("the error, %d bytes at most", maxCause), "16,384 at most", fmt.Sprintf("in %d steps of %d seconds", samples, sampleEvery/time.Second), "without it there are 1,000",
		fmt.Sprintf("| %d; %d |", usual.connections, usual.watchers), fmt.Sprintf("| %d s, with a header of %d KiB |", usual.header/time.Second, usual.headerBytes>>10),
		fmt.Sprintf("| %d s; %d s to be taken |", usual.answer/time.Second, usual.event/time.Second),
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/status.md does not say %q", want)
		}
	}
}

// jsonFields returns the names of the fields of a type, and of the elements of its lists.
func jsonFields(v reflect.Type, prefix string) (all []string) {
	for f := range v.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct {
			all = append(all, jsonFields(f.Type.Elem(), name+"[].")...)
			continue
		}
		all = append(all, prefix+name)
	}
	return all
}
