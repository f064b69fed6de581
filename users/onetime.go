package users

import (
	"crypto/rand"
	"strings"
)

// OneTimeUser is the name of the user that [OneTime] makes.
const OneTimeUser = "haul"

// The password of [OneTime] consists of four groups of five characters, which are chosen from 31
// characters. That is 99 bits.
const (
	oneTimeGroups   = 4
	oneTimeGroup    = 5
	oneTimeAlphabet = "abcdefghjkmnpqrstuvwxyz23456789" // without characters that look alike
)

// OneTime returns a directory with one user and a random password. Both exist only in this
// directory. It is for a server without a users file, which prints the password when it starts to
// listen.
func OneTime(a Access) (d *Directory, password string, err error) {
	password = randomPassword()
	h, err := HashPassword([]byte(password))
	if err != nil {
		return nil, "", err
	}
	d, err = New(User{Name: OneTimeUser, Password: h, Access: a})
	return d, password, err
}

func randomPassword() string {
	var b strings.Builder
	for n := 0; n < oneTimeGroups*oneTimeGroup; {
		var r [1]byte
		_, _ = rand.Read(r[:]) // never returns an error
		// Skip the highest byte values, because they would make some characters more likely than
		// others.
		if int(r[0]) >= 256/len(oneTimeAlphabet)*len(oneTimeAlphabet) {
			continue
		}
		if n > 0 && n%oneTimeGroup == 0 {
			b.WriteByte('-')
		}
		b.WriteByte(oneTimeAlphabet[int(r[0])%len(oneTimeAlphabet)])
		n++
	}
	return b.String()
}
