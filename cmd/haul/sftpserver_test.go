package main

import (
	"slices"
	"strings"
	"testing"
)

// Invalid options end the command before it serves, and the error lists the valid values.
func TestSFTPServerOptions(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"-u 888", "umask"},
		{"-u 1777", "umask"},
		{"-u", "needs an argument"},
		{"-l LOUD", "QUIET, FATAL, ERROR"},
		{"-f MAIL", "LOCAL0"},
		{"-P opne", "-Q requests"},
		{"-p read,", "-Q requests"},
		{"-Rp open,rm", `"rm"`},
		{"-Q features", "-Q requests"},
		{"-d %x", "%d"},
		{"--root %", "%u"},
		{"--root /dev/null", "/dev/null"},
		{"-x", "-x"},
		{"/srv", "sftp-server"},
	} {
		code, stdout, stderr := haul(t, append([]string{"sftp-server"}, strings.Fields(test.args)...)...)
		if code == 0 || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: exit %d, %q, %q; want %q", test.args, code, stdout, stderr, test.want)
		}
	}
}

// -Q lists the names that OpenSSH's sftp-server lists, and haul's own extensions.
func TestSFTPServerQuery(t *testing.T) {
	code, stdout, stderr := haul(t, "sftp-server", "-Q", "requests")
	names := strings.Fields(stdout)
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d, %q", code, stderr)
	}
	for name := range strings.FieldsSeq(`open close read write lstat fstat setstat fsetstat opendir readdir remove mkdir rmdir
		realpath stat rename readlink symlink posix-rename statvfs fstatvfs hardlink fsync lsetstat limits expand-path
		copy-data home-directory users-groups-by-id`) {
		if !slices.Contains(names, name) {
			t.Errorf("%s is missing", name)
		}
	}
}
