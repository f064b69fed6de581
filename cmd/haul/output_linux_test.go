package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// A list of directories that cannot be written ends at once, however many there are.
func TestListOntoFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `[{"name":"a","type":"directory"},{"name":"b","type":"directory"},{"name":"f","type":"file"}]`)
	}))
	t.Cleanup(s.Close)
	for _, args := range []string{"tree", "ls -R", "ls -R --json", "sum -r"} {
		before := asked.Load()
		root := newRoot()
		root.SetArgs(append(strings.Fields(args), s.URL+"/"))
		_, err := execute(t.Context(), root, full)
		n := asked.Load() - before
		if exitCode(err) != exitLocal || strings.Count(err.Error(), "no space left") != 1 || args != "sum -r" && n > 4 {
			t.Errorf("haul %s: %d requests, %v", args, n, err)
		}
	}
}
