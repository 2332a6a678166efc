# %% [markdown]
# # exposure

# %%
print(1)
