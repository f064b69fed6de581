package users

// Checked returns how many passwords were checked, stand-ins included.
func (d *Directory) Checked() int64 { return d.limiter.checked.Load() }

// Occupy takes all places where passwords are checked, until the returned
// function is called.
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

// Waiting returns how many passwords wait to be checked.
func (d *Directory) Waiting() int { return int(d.limiter.waiting.Load()) }

// The bounds that tests go to.
const (
	MaxWaiting = maxWaiting
	MaxUsers   = maxUsers
	MinRSABits = minRSABits
	MaxRSABits = maxRSABits
)

// The parts that have tests of their own.
var (
	CheckKey      = checkKey
	FromAny       = func(patterns string) ([]pattern, error) { return parsePatterns(patterns) }
	FromMatches   = fromAny
	ParseCommand  = parseCommand
	ParseKeysText = parseKeys
	Seen          = func(d *Directory) int { return len(d.seen) }
)

// Forced returns what a forced command comes to.
func (c command) Forced() (readOnly bool, dir string) { return c.readOnly, c.dir }

// ParseText reads the text of a users file, and returns the users in it.
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
