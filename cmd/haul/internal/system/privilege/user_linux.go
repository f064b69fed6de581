package privilege

import (
	"errors"
	"fmt"
	"math"
	"os/user"
	"slices"
	"strconv"
	"strings"
)

// LookUp finds the user that spec names. spec has one of these forms:
//
//	haul        the user, with that user's groups, as initgroups(3) would
//	haul:tftp   the user with this group and no other
//	993:990     the same in numbers, which need not be known to the system
//
// A name has precedence over a number, as in chown(1). Names come from /etc/passwd and /etc/group.
// The binary of haul is built without cgo, so it does not query directory services. For a user of a
// directory service, use numbers.
func LookUp(spec string) (User, error) {
	u, err := lookUp(spec)
	if err != nil {
		return User{}, fmt.Errorf("user %q: %w", spec, err)
	}
	return u, nil
}

func lookUp(spec string) (User, error) {
	name, group, grouped := strings.Cut(spec, ":")
	u := User{Name: spec}
	entry, err := findUser(name)
	switch {
	case err != nil:
		return User{}, err
	case entry != nil:
		u.UID, err = number(entry.Uid)
	default:
		u.UID, err = number(name)
	}
	switch {
	case err != nil:
		return User{}, err
	case u.UID == 0:
		return User{}, errors.New("that is root; name a user with fewer rights")
	case grouped:
		u.GID, err = findGroup(group)
		return u, err
	case entry == nil:
		return User{}, fmt.Errorf("no such user here, so its group is not known; say %s:GROUP", name)
	}
	if u.GID, err = number(entry.Gid); err != nil {
		return User{}, err
	}
	u.Groups, err = memberships(entry)
	return u, err
}

// findUser returns the user with the given name or, if there is no such user, the one with that ID.
// For an ID that is not in the user database it returns nil.
func findUser(name string) (*user.User, error) {
	if name == "" {
		return nil, errors.New("it is NAME, NAME:GROUP or UID:GID")
	}
	entry, err := user.Lookup(name)
	if err == nil {
		return entry, nil
	}
	_, unknown := errors.AsType[user.UnknownUserError](err)
	_, numberErr := number(name)
	switch {
	case !unknown:
		return nil, err // err says which file could not be read
	case numberErr != nil:
		return nil, errors.New("no such user in /etc/passwd; create it (useradd --system), or use numbers, UID:GID")
	}
	entry, err = user.LookupId(name)
	if _, unknown := errors.AsType[user.UnknownUserIdError](err); unknown {
		return nil, nil
	}
	return entry, err
}

// findGroup returns the ID of a group that is given by its name or its ID.
func findGroup(group string) (int, error) {
	if group == "" {
		return 0, errors.New("the group is missing after the colon")
	}
	entry, err := user.LookupGroup(group)
	if err == nil {
		return number(entry.Gid)
	}
	if _, unknown := errors.AsType[user.UnknownGroupError](err); !unknown {
		return 0, err
	}
	gid, err := number(group)
	if err != nil {
		return 0, fmt.Errorf("no such group %q in /etc/group; create it (groupadd --system), or use numbers, UID:GID", group)
	}
	return gid, nil
}

// memberships returns the IDs of a user's supplementary groups, sorted.
func memberships(entry *user.User) ([]int, error) {
	ids, err := entry.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("its groups: %w", err)
	}
	var groups []int
	for _, id := range ids {
		gid, err := number(id)
		if err != nil {
			return nil, err
		}
		groups = append(groups, gid)
	}
	slices.Sort(groups)
	return slices.Compact(groups), nil
}

// number parses the ID of a user or a group. It refuses the highest 32-bit number, because that
// means "leave unchanged" to the kernel.
func number(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n == math.MaxUint32 {
		return 0, fmt.Errorf("%q is no number from 0 to %d", s, uint32(math.MaxUint32-1))
	}
	return int(n), nil
}
