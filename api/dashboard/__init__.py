"""The operator's page: an application of its own that the API mounts at /dashboard.

It knows no tenant's API and shares only the database with it.  Every page but the sign-in needs an
admin key's session, every POST a token, and nothing is loaded from anywhere else.
"""
