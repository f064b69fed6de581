package users_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/haul-project/haul/users"
	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
)

// knows reports whether a hash was made from a password.
func knows(t testing.TB, h users.Hash, password string) bool {
	t.Helper()
	_, err := directory(t, users.User{Name: "x", Password: h}).Password(t.Context(), users.Attempt{Now: now}, "x", []byte(password))
	if _, refused := errors.AsType[*users.Refusal](err); err != nil && !refused {
		t.Fatal(err)
	}
	return err == nil
}

// argon makes an argon2id hash with the given parameters.
func argon(password string, m, t uint32, p uint8, salt, tag int) string {
	s := []byte(strings.Repeat("s", salt))
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", m, t, p, base64.RawStdEncoding.EncodeToString(s),
		base64.RawStdEncoding.EncodeToString(argon2.IDKey([]byte(password), s, t, m, p, uint32(tag))))
}

func TestHashes(t *testing.T) {
	ours, err := users.HashPassword([]byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := users.HashPassword([]byte("secret"))
	if err != nil || again.Encoded() == ours.Encoded() {
		t.Errorf("the same password twice has the same hash: no salt (%v)", err)
	}
	b := cheap(t, "secret")
	for _, text := range []string{
		ours.Encoded(), again.Encoded(), b, strings.Replace(b, "$2a$", "$2b$", 1), strings.Replace(b, "$2a$", "$2y$", 1),
		argon("secret", 8, 1, 1, 8, 16), argon("secret", 64, 3, 4, 64, 64),
	} {
		h := parseHash(t, text)
		if !knows(t, h, "secret") || knows(t, h, "Secret") || knows(t, h, "secre") || knows(t, h, "secret\x00") {
			t.Errorf("%s does not know its password from others", h)
		}
		if h.Encoded() != text || h.IsZero() {
			t.Errorf("%s has become %s", text, h.Encoded())
		}
		if s := fmt.Sprintf("%v %+v %#v %s", h, h, h, h); strings.Contains(s, text[len(text)-20:]) {
			t.Errorf("printed, a hash is revealed: %s", s)
		}
	}
	if h := (users.Hash{}); !h.IsZero() || h.String() != "none" || knows(t, h, "none") {
		t.Error("the zero hash is a hash")
	}
}

// A test vector of the reference implementation.
func TestArgonVector(t *testing.T) {
	h := parseHash(t, "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc")
	if !knows(t, h, "password") || knows(t, h, "passwore") {
		t.Error("the vector does not verify")
	}
}

func TestBadHashes(t *testing.T) {
	b := cheap(t, "secret")
	a := argon("secret", 64, 1, 1, 16, 32)
	tests := map[string]string{
		"":                                     "neither",
		"secret":                               "neither",
		"$1$abc$def":                           "neither",
		"$6$rounds=5000$salt$hash":             "neither",
		"$argon2i$" + a[10:]:                   "neither",
		"$2x$" + b[4:]:                         "neither",
		"$2$" + b[4:]:                          "neither",
		"$2":                                   "neither",
		b[:59]:                                 "not whole",
		b + "x":                                "not whole",
		b[:30] + " " + b[31:]:                  "not whole",
		"$2a$+4$" + b[7:]:                      "not whole",
		"$2a$03$" + b[7:]:                      "cannot be read",
		"$2a$15$" + b[7:]:                      "cost 15",
		"$2a$31$" + b[7:]:                      "cost 31",
		"$argon2id$":                           "not whole",
		strings.Replace(a, "v=19", "v=16", 1):  "version",
		strings.Replace(a, "$v=19", "", 1):     "not whole",
		a + "$":                                "not whole",
		strings.Replace(a, "m=64", "m=064", 1): "as numbers",
		strings.Replace(a, "m=64", "m=-64", 1): "as numbers",
		strings.Replace(a, "m=64,t=1", "t=1,m=64", 1):       "in that order",
		strings.Replace(a, "p=1", "p=1,keyid=x", 1):         "parameters",
		strings.Replace(a, "m=64", "m=4294967295", 1):       "costs too much",
		strings.Replace(a, "m=64", "m=4294967296", 1):       "as numbers",
		strings.Replace(a, "m=64", "m=131073", 1):           "costs too much",
		strings.Replace(a, "t=1", "t=4294967295", 1):        "costs too much",
		strings.Replace(a, "m=64,t=1", "m=131072,t=5", 1):   "costs too much",
		strings.Replace(a, "p=1", "p=17", 1):                "costs too much",
		strings.Replace(a, "p=1", "p=0", 1):                 "impossible",
		strings.Replace(a, "t=1", "t=0", 1):                 "impossible",
		strings.Replace(a, "m=64", "m=7", 1):                "impossible",
		argon("secret", 64, 1, 1, 7, 32):                    "salt of 7",
		argon("secret", 64, 1, 1, 65, 32):                   "salt of 65",
		argon("secret", 64, 1, 1, 16, 15):                   "15 bytes",
		argon("secret", 64, 1, 1, 16, 65):                   "65 bytes",
		"$argon2id$v=19$m=64,t=1,p=1$$":                     "salt of 0",
		"$argon2id$v=19$m=64,t=1,p=1$c29tc2FsdHNvbWVzYWx0$": "0 bytes",
		a + "=":                            "base64",
		a[:len(a)-1] + "!":                 "base64",
		a[:len(a)-2] + "\n" + a[len(a)-2:]: "base64",
	}
	for text, want := range tests {
		h, err := users.ParseHash(text)
		if err == nil || !strings.Contains(err.Error(), want) || !h.IsZero() {
			t.Errorf("%q: %v, %v; want %q", text, h, err, want)
		}
		if err != nil && len(text) > 40 && strings.Contains(err.Error(), text[len(text)-15:]) {
			t.Errorf("the error quotes the hash: %v", err)
		}
	}
	// The most expensive hashes that are allowed.
	for _, text := range []string{"$2b$14$" + b[7:], strings.Replace(a, "m=64,t=1", "m=131072,t=4", 1), strings.Replace(strings.Replace(a, "p=1", "p=16", 1), "m=64", "m=128", 1)} {
		if _, err := users.ParseHash(text); err != nil {
			t.Errorf("%s: %v", text[:20], err)
		}
	}
}

// bcrypt uses only 72 bytes, and repeats a shorter password with a NUL between. Without checks,
// other passwords would therefore be accepted as well.
func TestBcryptPasswords(t *testing.T) {
	long := strings.Repeat("x", 72)
	h := hash(t, long)
	if !knows(t, h, long) || knows(t, h, long+"y") || knows(t, h, long[:71]) {
		t.Error("a password of 72 bytes is known by its beginning")
	}
	if bcrypt.CompareHashAndPassword([]byte(h.Encoded()), []byte(long+"y")) != nil {
		t.Log("x/crypto/bcrypt now distinguishes them itself")
	}
	if h := hash(t, "a"); !knows(t, h, "a") || knows(t, h, "a\x00a") {
		t.Error("a password is known by its repetition")
	}
	// argon2id has no such problem.
	h, err := users.HashPassword([]byte(long + "y\x00z"))
	if err != nil {
		t.Fatal(err)
	}
	if !knows(t, h, long+"y\x00z") || knows(t, h, long+"y\x00") {
		t.Error("long passwords are cut")
	}
	if _, err := users.HashPassword([]byte(strings.Repeat("x", users.MaxPassword+1))); err == nil {
		t.Error("a password of any length has a hash")
	}
}
