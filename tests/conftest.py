"""What every test may ask for, one file a service.  Nothing starts until a test asks."""

pytest_plugins = [
    "tests.fixtures.servers",
    "tests.fixtures.database",
    "tests.fixtures.storage",
    "tests.fixtures.broker",
]
