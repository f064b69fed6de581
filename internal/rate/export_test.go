package rate

const MaxOwing = maxOwing

// Len returns how many accounts there are.
func (a *Accounts[Name]) Len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.byName)
}
