package main

import (
	"os"
	"strings"
	"testing"
)

// A command whose output cannot be written fails, whether it is help or a list.
func TestOutputToFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, args := range []string{"--help", "help serve", "get --help", "version", "completion bash", "help sizes"} {
		root := newRoot()
		root.SetArgs(strings.Fields(args))
		if _, err := execute(t.Context(), root, full); exitCode(err) != exitLocal || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("haul %s: %v", args, err)
		}
	}
}
