package remote

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
)

// askScript writes a program that asks, and records each question in a file.
func askScript(t *testing.T, lines string) (program, asked string) {
	t.Helper()
	dir := t.TempDir()
	program, asked = filepath.Join(dir, "ask"), filepath.Join(dir, "asked")
	text := "#!/bin/sh\nprintf '%s;' \"$1\" >>'" + asked + "'\n" + lines + "\n"
	servetest.WriteProgram(t, program, text)
	return program, asked
}

// A program that does not answer as it should ends the question.
func TestAskpassAnswers(t *testing.T) {
	for name, c := range map[string]struct{ script, answer, fault string }{
		"a line":           {"echo it", "it", ""},
		"no line break":    {"printf it", "it", ""},
		"nothing":          {"exit 0", "", ""},
		"it fails":         {"echo it; exit 3", "", "exit status 3"},
		"without end":      {"yes", "", "too long"},
		"leaves a process": {"echo it; exec 2>&-; sleep 60 &", "it", ""},
	} {
		program, _ := askScript(t, c.script)
		got, err := askProgram(t.Context(), program, "what?")
		if got != c.answer || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := askProgram(t.Context(), filepath.Join(t.TempDir(), "none"), "what?"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no program: %v", err)
	}
	program, asked := askScript(t, "exec sleep 60")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := askProgram(ctx, program, "what?")
		ended <- err
	}()
	for late := time.Now().Add(servetest.Patience); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(asked); err == nil || time.Now().After(late) {
			break
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	// The questions end even if no answer is ever clear.
	program, asked = askScript(t, "echo maybe")
	t.Setenv("SSH_ASKPASS", program)
	t.Setenv("SSH_ASKPASS_REQUIRE", "force")
	if yes, err := new(asker).Confirm(t.Context(), "really?"); yes || err == nil || !strings.Contains(err.Error(), "neither yes nor no") {
		t.Errorf("%v, %v", yes, err)
	}
	if text, _ := os.ReadFile(asked); strings.Count(string(text), ";") != maxUnclear {
		t.Errorf("asked %q", text)
	}
}
