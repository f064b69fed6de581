// Package golden is for tests. It compares the output of a test with a file in testdata, and runs
// transcripts: files that list events and their expected consequences. With -update it rewrites the
// files.
package golden

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/internal/repeat"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// Compare compares `got` with the file in testdata that has the given name, and reports the first
// line that differs. With -update it writes the file instead.
func Compare(t testing.TB, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", filepath.FromSlash(name))
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := read(t, path)
	if want == got {
		return
	}
	g, w := append(strings.Split(got, "\n"), "(the end)"), append(strings.Split(want, "\n"), "(the end)")
	i := 0
	for g[i] == w[i] {
		i++
	}
	t.Errorf("%s:%d differs\ngot:  %s\nwant: %s\nif the change is meant: %s", path, i+1, g[i], w[i], repeat.Command(t.Name(), "-update"))
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), "\r\n", "\n") // git may check files out with CRLF
}

// A Transcript executes the events of one transcript. Step executes an event, which is a line without
// indentation together with the lines below it that begin with a tab. It passes the consequences of
// the event to say, line by line.
type Transcript interface {
	Step(event string, say func(format string, args ...any)) error
}

// Transcripts runs the transcripts in testdata/transcripts, each as a subtest. Events are lines
// without indentation, and are written by hand. The lines below an event that are indented by two
// spaces are its consequences, which -update rewrites. A line that begins with # is a comment.
func Transcripts(t *testing.T, begin func(t *testing.T) Transcript) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			var out strings.Builder
			say := func(format string, args ...any) { fmt.Fprintf(&out, "  "+format+"\n", args...) }
			run := begin(t)
			lines := strings.Split(strings.TrimSuffix(read(t, path), "\n"), "\n")
			for i := 0; i < len(lines); i++ {
				at, event := i+1, lines[i]
				if strings.HasPrefix(event, "  ") {
					continue
				}
				for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "\t") {
					i++
					event += "\n" + lines[i]
				}
				out.WriteString(event + "\n")
				if event == "" || event[0] == '#' {
					continue
				}
				if err := run.Step(event, say); err != nil {
					t.Fatalf("%s:%d: %s: %v", path, at, event, err)
				}
			}
			Compare(t, "transcripts/"+filepath.Base(path), out.String())
		})
	}
}
