package serve

import (
	"errors"
	"log/slog"
	"os"

	"github.com/haul-project/haul/internal/privilege"
)

// userToBecome looks up what --user names, which may be nothing: nil. It is
// called with the other checks of the command line, before any socket is open.
func userToBecome(spec string) (*privilege.User, error) {
	if spec == "" {
		return nil, nil
	}
	u, err := privilege.LookUp(spec)
	if err != nil {
		return nil, usagef("user", "--user: %w", err)
	}
	return &u, nil
}

// ownUsers returns the numbers of the users that a server runs as: the one that has
// started it, and the one that it becomes, if any.
func ownUsers(become *privilege.User) []int {
	own := []int{os.Geteuid()}
	if become != nil {
		own = append(own, become.UID)
	}
	return own
}

// dropPrivileges gives up what a server needs no more once everything is open: the
// files outside its directories, then being root or having capabilities. It
// cannot be undone, and after an error the process must end.
//
// Confine comes first because it finds the directories by name, where the user
// may not be able to walk. A system that can confine nothing is served on.
func dropPrivileges(user *privilege.User, needs privilege.Confinement, log *slog.Logger) error {
	what, err := privilege.Confine(needs)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
	case err != nil:
		return err
	default:
		log.Info("confined", "by", what)
	}
	switch {
	case user != nil:
		return privilege.Drop(*user)
	case os.Geteuid() == 0:
		log.Warn("running as root: a bug in haul would have root's rights; use --user NAME")
		return nil
	}
	if err := privilege.DropCapabilities(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}
