package settings

import (
	"os"
	"path/filepath"
	"testing"
)

// These are the default places of users and host keys.
func TestDefaultPlaces(t *testing.T) {
	for _, name := range []string{"CONFIGURATION_DIRECTORY", "STATE_DIRECTORY", "XDG_CONFIG_HOME", "XDG_STATE_HOME"} {
		t.Setenv(name, "")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	want := func(usersFile, hostKeys string) {
		t.Helper()
		u, err1 := DefaultUsersFile()
		k, err2 := StateDir("host-keys", "", "")
		if err1 != nil || err2 != nil || u != filepath.FromSlash(usersFile) || k != filepath.FromSlash(hostKeys) {
			t.Errorf("%s, %v and %s, %v; want %s and %s", u, err1, k, err2, usersFile, hostKeys)
		}
	}
	if os.Geteuid() == 0 {
		want("/etc/haul/users", "/var/lib/haul")
	} else {
		want(home+"/.config/haul/users", home+"/.local/state/haul")
		t.Setenv("XDG_CONFIG_HOME", home+"/c")
		t.Setenv("XDG_STATE_HOME", "not/absolute")
		want(home+"/c/haul/users", home+"/.local/state/haul")
	}
	t.Setenv("CONFIGURATION_DIRECTORY", "/etc/one:/etc/two")
	t.Setenv("STATE_DIRECTORY", "/var/lib/private/haul")
	want("/etc/one/users", "/var/lib/private/haul")
}

// Without --users, the file in the default place is used.
func TestDefaultUsers(t *testing.T) {
	etc := t.TempDir()
	t.Setenv("CONFIGURATION_DIRECTORY", etc)
	var cfg SFTP
	if file, err := cfg.UsersFile(); file != "" || err != nil {
		t.Errorf("with no file there: %q, %v", file, err)
	}
	path := filepath.Join(etc, "users")
	if err := os.WriteFile(path, []byte("user alice\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if file, err := cfg.UsersFile(); file != path || err != nil {
		t.Errorf("with a file there: %q, %v; want %s", file, err, path)
	}
}
