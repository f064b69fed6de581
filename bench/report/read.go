package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/haul-project/haul/bench/suite/record"
)

// maxLine is the largest length of a line in bytes. It bounds the memory that is needed to read a
// file that is not a results file.
const maxLine = 1 << 20

// Load reads results files, as "bench run" appends to them. It ignores lines of other formats and
// an incomplete last line of a killed run, and the report says so. It returns an error if a file
// cannot be read, if it is not a results file, or if no file has a line to report.
func Load(paths ...string) (*Report, error) {
	var all []record.Line
	r := Report{}
	for _, path := range paths {
		lines, others, err := readFile(path)
		if err != nil {
			return nil, fmt.Errorf("results in %s: %w", path, err)
		}
		name := filepath.Base(path)
		r.files = append(r.files, name)
		if others > 0 {
			r.remarks = append(r.remarks, fmt.Sprintf("%s: %s of another format, or incomplete, not used", name, count(others, "line")))
		}
		all = append(all, lines...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no line of format %d in %d files; \"bench run --out FILE\" writes them", record.Format, len(paths))
	}
	r.arrange(all)
	return &r, nil
}

func readFile(path string) (lines []record.Line, others int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	return read(f)
}

// read returns the lines of the current format, and the number of others. It is more tolerant than
// record.Read, which refuses a file because of one old line: a file to which several versions
// appended still gives a useful report.
func read(from io.Reader) (lines []record.Line, others int, err error) {
	s := bufio.NewScanner(from)
	s.Buffer(nil, maxLine)
	var broken error // error in a line; ignored if that is the last line, because a killed run may have left it incomplete
	for n := 1; s.Scan(); n++ {
		if broken != nil {
			return nil, 0, broken
		}
		var version struct {
			Format int `json:"format"`
		}
		if err := json.Unmarshal(s.Bytes(), &version); err != nil {
			broken = fmt.Errorf("line %d is not a result: %w", n, err)
			others++
			continue
		}
		if version.Format != record.Format {
			others++
			continue
		}
		var l record.Line
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", n, err)
		}
		rename(&l.Scenario)
		lines = append(lines, l)
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return nil, 0, fmt.Errorf("a line has more than %d bytes, so these are no results", maxLine)
	}
	return lines, others, s.Err()
}

// renamed maps old names of groups to their new names. The names of a group's scenarios begin with
// the name of the group.
var renamed = map[string]string{"sftp-doc3": "sftp-doc5"}

func rename(s *record.Scenario) {
	if name, ok := renamed[s.Group]; ok {
		s.Name, s.Group = name+strings.TrimPrefix(s.Name, s.Group), name
	}
}
