package fileops

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// A description that cannot be written is one local failure.
func TestOutputToFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	fi, err := full.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"stat": printStat(full, entry{FileInfo: fi, path: "a"}, owners{}),
		"df":   printSpace(full, [][]string{{"1", "1", "0", "100%", "h:"}}, false),
	} {
		if !errors.Is(err, failure.Local) || strings.Count(err.Error(), "no space left") != 1 {
			t.Errorf("%s: %v", what, err)
		}
	}
}
