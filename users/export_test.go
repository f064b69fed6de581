package users

// Checked returns how many passwords were checked, including those that were checked against a
// stand-in hash.
func (d *Directory) Checked() int64 { return d.limiter.checked.Load() }

// Occupy takes all places for checking passwords, until the returned function is called.
func (d *Directory) Occupy() (free func()) {
	n := cap(d.limiter.places)
	for range n {
		d.limiter.places <- struct{}{}
	}
	return func() {
		for range n {
			<-d.limiter.places
		}
	}
}

// Waiting returns how many passwords are waiting to be checked.
func (d *Directory) Waiting() int { return int(d.limiter.waiting.Load()) }

// Bounds that tests reach.
const (
	MaxWaiting = maxWaiting
	MaxUsers   = maxUsers
	MinRSABits = minRSABits
	MaxRSABits = maxRSABits
)

// Internal functions and types with separate tests.
var (
	CheckKey      = checkKey
	FromAny       = func(patterns string) ([]pattern, error) { return parsePatterns(patterns) }
	FromMatches   = fromAny
	ParseCommand  = parseCommand
	ParseKeysText = parseKeys
	Seen          = func(d *Directory) int { return len(d.seen) }
)

// Forced returns the effect of a forced command.
func (c command) Forced() (readOnly bool, dir string) { return c.readOnly, c.dir }

// ParseText parses the text of a users file, and returns its users.
func ParseText(text string) ([]User, error) {
	p, err := parseFile("users", text)
	if err != nil {
		return nil, err
	}
	var all []User
	for _, s := range p.users {
		all = append(all, s.user)
	}
	return all, nil
}

// The functions AddIn, RemoveIn and SetPasswordIn make a change in the text of a users file.

func AddIn(text string, u User) (string, error) { return changed("users", text, adding(u)) }

func RemoveIn(text, name string) (string, error) { return changed("users", text, removing(name)) }

func SetPasswordIn(text, name string, h Hash) (string, error) {
	return changed("users", text, changing(name, password(h)))
}
