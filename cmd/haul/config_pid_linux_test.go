package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// config check --pid checks what a running server would read on SIGHUP: its own file, together with
// its flags. It refuses a server that SIGHUP would end.
func TestConfigCheckPID(t *testing.T) {
	t.Setenv("CONFIGURATION_DIRECTORY", t.TempDir()) // a directory without a file
	dir := t.TempDir()
	name := writeConfig(t, "[http]\nlisten = ['127.0.0.1:0']\n")
	check := func(pid int, code int, said ...string) {
		t.Helper()
		got, out, message := haul(t, "config", "check", "--pid", strconv.Itoa(pid))
		if got != code {
			t.Errorf("exit code %d, want %d: %s%s", got, code, out, message)
		}
		for _, text := range said {
			if !strings.Contains(out+message, text) {
				t.Errorf("it said %s%s, want %q", out, message, text)
			}
		}
	}
	server := startChild(t, childOptions{}, "--config", name, "--ports", "20000-20003", dir).cmd.Process.Pid
	check(server, 0, "would serve "+dir+" over HTTP on 127.0.0.1:0\n", "would serve "+dir+" over TFTP on 127.0.0.1:0\n")
	writeFile(t, name, "[http]\nlistne = ['127.0.0.1:0']\n")
	check(server, exitUsage, name+":2:1: [http] has no key listne; did you mean listen")
	// This file is valid by itself, but not together with the flags.
	writeFile(t, name, "[tftp]\nsingle_port = true\n")
	check(server, exitUsage, name+":2:1: tftp.single_port and --ports exclude each other")

	other := startChild(t, childOptions{}, dir).cmd.Process.Pid
	check(other, exitUsage, "process "+strconv.Itoa(other)+" has no configuration file to read again, and SIGHUP would end it")
	check(os.Getpid(), exitUsage, "is none of haul serve", filepath.Base(os.Args[0]))
	check(1<<30, exitLocal, "read the command line of process 1073741824")
	if code, _, message := haul(t, "config", "check", "--pid", "1", name); code != exitUsage || !strings.Contains(message, "FILE has no effect") {
		t.Errorf("exit code %d, %s", code, message)
	}
}
