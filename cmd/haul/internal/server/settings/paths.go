package settings

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// Where users and host keys are looked for by default, for help texts.
const (
	UsersPlaces    = "$CONFIGURATION_DIRECTORY/users, /etc/haul/users for root, or ~/.config/haul/users"
	HostKeysPlaces = "$STATE_DIRECTORY, /var/lib/haul for root, or ~/.local/state/haul"
)

// DefaultUsersFile returns the default users file, which need not exist.
func DefaultUsersFile() (string, error) {
	dir, err := ownDir("CONFIGURATION_DIRECTORY", "/etc/haul", "XDG_CONFIG_HOME", ".config")
	if err != nil {
		return "", failure.Mistake("users", "%w; name the users file by %s FILE", err, failure.Flag("users"))
	}
	return filepath.Join(dir, "users"), nil
}

// StateDir returns the default directory of host keys and certificates. If there is none, the
// error asks for what the directory would have, which the setting names by a value such as DIR.
func StateDir(setting failure.Flag, what, value string) (string, error) {
	dir, err := ownDir("STATE_DIRECTORY", "/var/lib/haul", "XDG_STATE_HOME", ".local/state")
	if err != nil {
		return "", failure.Mistake(setting, "%w; name %s by %s %s", err, what, setting, value)
	}
	return dir, nil
}

// ownDir returns a directory of haul's own: the first that systemd names in a variable
// (systemd.exec(5)), root's, or the one of the XDG base directory specification.
func ownDir(systemd, root, xdg, below string) (string, error) {
	if first, _, _ := strings.Cut(os.Getenv(systemd), ":"); first != "" {
		return first, nil
	}
	if os.Geteuid() == 0 {
		return root, nil
	}
	// The specification says to ignore paths that are not absolute.
	if dir := os.Getenv(xdg); filepath.IsAbs(dir) {
		return filepath.Join(dir, "haul"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", errors.New("there is no home directory ($HOME is not set)")
	}
	return filepath.Join(home, below, "haul"), nil
}

// UsersFile returns the users file, or "" if there is none.
func (cfg *SFTP) UsersFile() (string, error) {
	if cfg.Users != "" {
		return filepath.Abs(cfg.Users)
	}
	file, err := DefaultUsersFile()
	if err != nil {
		return "", nil // where there is no place for one, there is none
	}
	// A file that exists and cannot be read is an error: its author relies on it.
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return file, nil
}
